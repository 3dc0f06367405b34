//! Walks a JSON value and reports what has the wrong shape, by path.
//!
//! A [`Field`] knows the way back to the root, so a path is written only when there is something to report.

use std::cell::RefCell;
use std::fmt::Write as _;
use std::net::IpAddr;
use std::ops::RangeInclusive;

use serde_json::Value;

use crate::name::ObjectRef;
use crate::net::{self, IpNet};
use crate::report::{Report, Severity};

/// Collects the reports of one object.
#[derive(Debug)]
pub struct Reader {
    object: ObjectRef,
    reports: RefCell<Vec<Report>>,
}

impl Reader {
    /// A reader of `object`.
    pub fn new(object: ObjectRef) -> Self {
        Self { object, reports: RefCell::default() }
    }

    /// The object's outermost value.
    pub fn root<'a>(&'a self, value: &'a Value) -> Field<'a> {
        Field { reader: self, value: Some(value), key: Key::Root, parent: None }
    }

    /// What was found wrong, in the order in which it was read.
    pub fn into_reports(self) -> Vec<Report> {
        self.reports.into_inner()
    }
}

/// A place in the object, which may be absent. `null` is absent.
#[derive(Clone, Copy, Debug)]
pub struct Field<'a> {
    reader: &'a Reader,
    value: Option<&'a Value>,
    key: Key<'a>,
    parent: Option<&'a Field<'a>>,
}

#[derive(Clone, Copy, Debug)]
enum Key<'a> {
    Root,
    Name(&'a str),
    Index(usize),
}

impl<'a> Field<'a> {
    /// The field `key` of this object. Reports when this is there but no object.
    #[must_use]
    pub fn at(&'a self, key: &'a str) -> Field<'a> {
        let value = match self.value {
            Some(Value::Object(map)) => map.get(key).filter(|v| !v.is_null()),
            Some(Value::Null) | None => None,
            Some(_) => self.refuse("must be an object; it is left out"),
        };
        Field { reader: self.reader, value, key: Key::Name(key), parent: Some(self) }
    }

    /// The names of the fields of this object, in order.
    pub fn keys(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        self.value.and_then(Value::as_object).into_iter().flat_map(|map| map.keys()).map(String::as_str)
    }

    /// Is there anything here?
    pub fn is_there(&self) -> bool {
        self.value.is_some()
    }

    /// Is it the number 0, which the API writes for "none"?
    pub fn value_is_zero(&self) -> bool {
        self.value.and_then(Value::as_u64) == Some(0)
    }

    /// Is it a list without entries?
    pub fn is_empty_list(&self) -> bool {
        self.value.and_then(Value::as_array).is_some_and(Vec::is_empty)
    }

    /// The text here. Reports when it is something else.
    pub fn text(&self) -> Option<&'a str> {
        match self.value? {
            Value::String(text) => Some(text),
            _ => self.refuse("must be text; it is left out"),
        }
    }

    /// `true` or `false` here. Reports when it is something else.
    pub fn flag(&self) -> Option<bool> {
        match self.value? {
            Value::Bool(flag) => Some(*flag),
            _ => self.refuse("must be true or false; it is left out"),
        }
    }

    /// The whole number here. Reports when it is something else or out of `range`.
    pub fn number(&self, range: RangeInclusive<u32>) -> Option<u32> {
        let value = self.value?;
        let number = value.as_u64().and_then(|n| u32::try_from(n).ok()).filter(|n| range.contains(n));
        match (number, quoted_number(value).filter(|n| range.contains(n))) {
            (Some(number), _) => Some(number),
            (None, Some(meant)) => self.refuse_value(
                &value.to_string(),
                &format!("is a quoted number: write {meant}; it is left out"),
            ),
            (None, None) => self.refuse(&format!(
                "must be a number from {} to {}; it is left out",
                range.start(),
                range.end()
            )),
        }
    }

    /// The port number here. Reports when it is none.
    pub fn port(&self) -> Option<u16> {
        self.number(1..=65535).and_then(|n| u16::try_from(n).ok())
    }

    /// The address here. Reports when it is none.
    pub fn ip(&self) -> Option<IpAddr> {
        let text = self.text()?;
        net::parse_ip(text).or_else(|| self.refuse("is no IP address; it is left out"))
    }

    /// The network here. Reports when it is none.
    pub fn cidr(&self) -> Option<IpNet> {
        let text = self.text()?;
        net::parse_cidr(text).or_else(|| self.refuse("is no network such as 10.0.0.0/8; it is left out"))
    }

    /// The entries of the list here. Reports when it is something else.
    pub fn items(&'a self) -> impl Iterator<Item = Field<'a>> {
        let items: &[Value] = match self.value {
            Some(Value::Array(items)) => items,
            None => &[],
            Some(_) => {
                self.refuse::<()>("must be a list; it is left out");
                &[]
            }
        };
        items.iter().enumerate().map(|(index, value)| Field {
            reader: self.reader,
            value: Some(value).filter(|v| !v.is_null()),
            key: Key::Index(index),
            parent: Some(self),
        })
    }

    /// Reports the value here, and gives nothing in its place.
    pub fn refuse<T>(&self, problem: &str) -> Option<T> {
        let value = match self.value {
            None => String::new(),
            Some(Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
        };
        self.refuse_value(&value, problem)
    }

    /// Reports the value here as something by which nothing is lost.
    pub fn warn(&self, problem: &str) {
        self.refuse::<()>(problem);
        if let Some(report) = self.reader.reports.borrow_mut().last_mut() {
            report.severity = Severity::Warning;
        }
    }

    /// Reports a part of the value here, and gives nothing in its place.
    pub fn refuse_value<T>(&self, value: &str, problem: &str) -> Option<T> {
        let report = Report::new(self.reader.object.clone(), &self.path(), value, problem);
        self.reader.reports.borrow_mut().push(report);
        None
    }

    fn path(&self) -> String {
        let mut path = self.parent.map(Field::path).unwrap_or_default();
        match self.key {
            Key::Root => {}
            // Label keys hold dots and slashes themselves.
            Key::Name(name) if name.contains(['.', '/']) => {
                let _ = write!(path, "[{name}]");
            }
            Key::Name(name) if path.is_empty() => path.push_str(name),
            Key::Name(name) => {
                let _ = write!(path, ".{name}");
            }
            Key::Index(index) => {
                let _ = write!(path, "[{index}]");
            }
        }
        path
    }
}

/// The number in a text that holds nothing else: quotes around a number are an ordinary slip in YAML.
fn quoted_number(value: &Value) -> Option<u32> {
    value.as_str()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// What is said of this port.
    fn said(port: &Value) -> String {
        let object = json!({ "port": port });
        let reader = Reader::new(ObjectRef { kind: "Service", name: "default/web".into() });
        assert_eq!(reader.root(&object).at("port").port(), None);
        reader.into_reports().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_quoted_number_is_told_as_such_with_what_to_write() {
        let quoted = "Service default/web: port `\"80\"`: is a quoted number: write 80; it is left out";
        assert_eq!(said(&json!("80")), quoted);
        for other in [json!("http"), json!("70000"), json!(70_000), json!(true), json!("-1")] {
            assert!(said(&other).contains(": must be a number from 1 to 65535; it is left out"), "{other}");
        }
    }
}
