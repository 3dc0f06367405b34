//! Rules of somebody else, who was there before us and came again after us: they must stay, and stay where they are.
//!
//! In: a door. Out: chains and rules that are not ours, put into the kernel's own chains behind our jumps and in front of them.

use kernel::xtables::{Family, FoundTable, Table, Xtables};

/// A chain of somebody else's, in each table, and what is said in front of and behind our jumps.
const CHAIN: &str = "SOMEBODY-ELSE";
const EARLY: &str = "was here first";
const LATE: &str = "came later";
/// In which of the kernel's own chains they stand.
const PLACES: [(Table, &[&str]); 2] = [
    (Table::Filter, &["INPUT", "FORWARD", "OUTPUT"]),
    (Table::Nat, &["PREROUTING", "OUTPUT", "POSTROUTING"]),
];

/// Those that are there before us: as our jumps are put first, they end up behind them.
pub(crate) fn before_us(door: &mut dyn Xtables) -> Result<(), String> {
    let rules = match door.family() {
        Family::V4 => ["-s 198.51.100.66/32 -j RETURN", "-p tcp -m multiport --dports 7,9 -j RETURN"],
        Family::V6 => ["-s 2001:db8:66::66/128 -j RETURN", "-p tcp -m multiport --dports 7,9 -j RETURN"],
    };
    let mut text = String::new();
    for (table, places) in PLACES {
        text.extend([format!("*{table}\n:{CHAIN} - [0:0]\n")]);
        text.extend(rules.map(|rule| format!("-A {CHAIN} {rule}\n")));
        text.extend(
            places.iter().map(|from| format!("-A {from} -m comment --comment \"{EARLY}\" -j {CHAIN}\n")),
        );
        text += "COMMIT\n";
    }
    door.restore(&text).map_err(|e| e.to_string())
}

/// Those that come when ours are there: they are put in front.
pub(crate) fn after_us(door: &mut dyn Xtables) -> Result<(), String> {
    let mut text = String::new();
    for (table, places) in PLACES {
        text.extend([format!("*{table}\n")]);
        text.extend(
            places.iter().map(|from| format!("-I {from} -m comment --comment \"{LATE}\" -j {CHAIN}\n")),
        );
        text += "COMMIT\n";
    }
    door.restore(&text).map_err(|e| e.to_string())
}

/// Are they all where they were: one first, ours, the other last?
pub(crate) fn are_in_place(door: &mut dyn Xtables) -> Result<(), String> {
    are(door, |ours| {
        let are_theirs = |comment: &Option<String>| [Some(EARLY), Some(LATE)].contains(&comment.as_deref());
        !ours.is_empty() && !ours.iter().any(are_theirs)
    })
}

/// Are they the only ones that are left?
pub(crate) fn are_alone(door: &mut dyn Xtables) -> Result<(), String> {
    are(door, <[Option<String>]>::is_empty)
}

/// Looks into the kernel's own chains; `fits` is asked for the comments between the first and the last rule.
fn are(door: &mut dyn Xtables, fits: fn(&[Option<String>]) -> bool) -> Result<(), String> {
    for (table, places) in PLACES {
        let text = door.save(table).map_err(|e| e.to_string())?.unwrap_or_default();
        let found = FoundTable::parse(&text);
        if found.chain(CHAIN).is_none_or(|chain| chain.rules.len() != 2) {
            return Err(format!("{table}: the chain of somebody else is not what it was:\n{text}"));
        }
        for place in places {
            let comments = comments(&found, place);
            // What must be last of all is behind them.
            let is_last = |comment: &Option<String>| {
                comment.as_ref().is_some_and(|comment| comment.contains("this must be the last rule"))
            };
            let count = comments.iter().rev().take_while(|comment| is_last(comment)).count();
            let (before, behind) = comments.split_at(comments.len() - count);
            let is_right = match before {
                [first, ours @ .., last] => {
                    let is_between = first.as_deref() == Some(LATE) && last.as_deref() == Some(EARLY);
                    // Not every mode hides sources.
                    let may_be_alone = *place == "POSTROUTING" && ours.is_empty();
                    is_between && (may_be_alone || fits(&[ours, behind].concat()))
                }
                _ => false,
            };
            if !is_right {
                return Err(format!("{table} {place}: not as somebody else left it: {comments:?}"));
            }
        }
    }
    Ok(())
}

fn comments(found: &FoundTable, chain: &str) -> Vec<Option<String>> {
    let rules = found.chain(chain).map(|chain| chain.rules.as_slice()).unwrap_or_default();
    rules.iter().map(|rule| rule.known()?.comment().map(str::to_owned)).collect()
}
