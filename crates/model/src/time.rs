//! A moment as Kubernetes objects write it, read without a clock.

use std::fmt;

/// Seconds since 1970-01-01T00:00:00Z.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// Reads RFC 3339 as the API server writes it (`2026-11-15T20:22:14Z`); offsets and fractions are understood, fractions
    /// dropped. `None` when it is something else.
    pub fn parse(text: &str) -> Option<Self> {
        let number = |from: usize, to: usize| -> Option<i64> {
            let digits = text.get(from..to)?;
            digits.bytes().all(|b| b.is_ascii_digit()).then(|| digits.parse().ok())?
        };
        let separators = [(4, b'-'), (7, b'-'), (10, b'T'), (13, b':'), (16, b':')];
        if separators
            .iter()
            .any(|&(at, byte)| text.as_bytes().get(at).is_none_or(|b| b.to_ascii_uppercase() != byte))
        {
            return None;
        }
        let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
        let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
        if !(1..=12).contains(&month) || !(1..=31).contains(&day) || hour > 23 || minute > 59 || second > 60 {
            return None;
        }
        let offset = offset_seconds(text.get(19..)?)?;
        Some(Self(days_since_epoch(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second - offset))
    }
}

impl fmt::Display for Timestamp {
    /// As the API server writes it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (days, second) = (self.0.div_euclid(86_400), self.0.rem_euclid(86_400));
        let (year, month, day) = date(days);
        let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
    }
}

/// The offset in what follows the seconds: `Z`, `.123Z`, `+02:00`, `.5-01:30`.
fn offset_seconds(rest: &str) -> Option<i64> {
    let rest = match rest.strip_prefix('.') {
        Some(fraction) => fraction.trim_start_matches(|c: char| c.is_ascii_digit()),
        None => rest,
    };
    if rest.eq_ignore_ascii_case("z") {
        return Some(0);
    }
    let sign = match rest.bytes().next()? {
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    let (hours, minutes) = rest.get(1..)?.split_once(':')?;
    let two_digits =
        |t: &str| (t.len() == 2 && t.bytes().all(|b| b.is_ascii_digit())).then(|| t.parse::<i64>().ok())?;
    Some(sign * (two_digits(hours)? * 3600 + two_digits(minutes)? * 60))
}

/// Days from 1970-01-01 to a day of the Gregorian calendar. The year is counted from March, so that the leap day is the
/// last of its year and months have a regular length formula.
fn days_since_epoch(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let day_of_year = (153 * month + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

/// The day of the Gregorian calendar, so many days after 1970-01-01: [`days_since_epoch`] backwards.
fn date(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let year = era * 400 + year_of_era;
    if month < 10 { (year, month + 3, day) } else { (year + 1, month - 9, day) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_written_as_they_are_read() {
        for text in
            ["1970-01-01T00:00:00Z", "2000-02-29T12:00:00Z", "2026-11-15T20:22:14Z", "1999-12-31T23:59:59Z"]
        {
            assert_eq!(Timestamp::parse(text).unwrap().to_string(), text);
        }
        for day in (-200_000..200_000).step_by(7) {
            let moment = Timestamp(day * 86_400);
            assert_eq!(Timestamp::parse(&moment.to_string()), Some(moment));
        }
    }

    #[test]
    fn moments_are_read() {
        for (text, expected) in [
            ("1970-01-01T00:00:00Z", Some(0)),
            ("2000-02-29T12:00:00Z", Some(951_825_600)),
            ("2026-11-15T20:22:14Z", Some(1_794_774_134)),
            ("2026-11-15T22:22:14.25+02:00", Some(1_794_774_134)),
            ("2026-11-15 20:22:14", None),
            ("2026-13-15T20:22:14Z", None),
            ("yesterday", None),
            ("", None),
        ] {
            assert_eq!(Timestamp::parse(text).map(|t| t.0), expected, "{text}");
        }
    }
}
