//! The settings of all modes as flags of a command.
//!
//! In: the registry's settings. Out: clap's arguments, and the [`Values`] that were given. A mode adds a flag by having a setting.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::marker::PhantomData;

use clap::builder::{PossibleValue, TypedValueParser};
use clap::{Arg, ArgAction, ArgMatches, Args, Command, Error, FromArgMatches};
use dataplane::settings::{Kind, Setting, Values};
use dataplane::{Mode, registry};

use super::said::Failure;
use super::values::{refuse, unknown};

/// The flags of one command.
#[derive(Clone, Debug)]
pub(super) struct ModeFlags<C> {
    /// What was given.
    pub(super) values: Values,
    command: PhantomData<C>,
}

/// A command that takes settings of modes.
pub(super) trait Takes {
    fn takes(setting: &Setting) -> bool;
}

/// `portway run`.
#[derive(Clone, Debug)]
pub(super) enum Run {}
/// Commands that show the rules of a mode.
#[derive(Clone, Debug)]
pub(super) enum Rules {}
/// `portway diff`, which takes more.
#[derive(Clone, Debug)]
pub(super) enum DiffOnly {}
/// `portway cleanup`.
#[derive(Clone, Debug)]
pub(super) enum Cleanup {}

impl Takes for Run {
    fn takes(_: &Setting) -> bool {
        true
    }
}

impl Takes for Rules {
    fn takes(setting: &Setting) -> bool {
        setting.commands.render
    }
}

impl Takes for DiffOnly {
    fn takes(setting: &Setting) -> bool {
        setting.commands.diff && !setting.commands.render
    }
}

impl Takes for Cleanup {
    fn takes(setting: &Setting) -> bool {
        setting.commands.cleanup
    }
}

/// Each setting once, however many modes have it, in the order of the registry.
fn settings<C: Takes>() -> Vec<&'static Setting> {
    let mut found: BTreeMap<&str, usize> = BTreeMap::new();
    let all = registry::MODES.iter().flat_map(|mode| mode.settings());
    all.filter(|setting| C::takes(setting))
        .filter(|setting| {
            let count = found.entry(setting.flag).or_default();
            *count += 1;
            *count == 1
        })
        .collect()
}

impl<C: Takes> Args for ModeFlags<C> {
    fn augment_args(command: Command) -> Command {
        command.args(settings::<C>().into_iter().map(argument))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<C: Takes> FromArgMatches for ModeFlags<C> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let mut values = Values::default();
        for setting in settings::<C>() {
            if let Kind::Switch = setting.kind {
                if matches.get_flag(setting.flag) {
                    values.set(setting.flag, vec!["true".to_owned()]);
                }
            } else if let Some(given) = matches.get_many::<String>(setting.flag) {
                values.set(setting.flag, given.cloned().collect());
            }
        }
        Ok(Self { values, command: PhantomData })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

fn argument(setting: &'static Setting) -> Arg {
    let argument = Arg::new(setting.flag).long(setting.flag).help(setting.help);
    let argument = match setting.heading {
        Some(heading) => argument.help_heading(heading),
        None => argument,
    };
    match setting.kind {
        Kind::Switch => argument.action(ArgAction::SetTrue),
        Kind::Time => argument.value_name("TIME").value_parser(OfSetting(setting)),
        Kind::Text { value_name, .. } | Kind::Word { value_name, .. } => {
            argument.value_name(value_name).value_parser(OfSetting(setting))
        }
        Kind::List { value_name, .. } => argument
            .value_name(value_name)
            .action(ArgAction::Append)
            .value_delimiter(',')
            .value_parser(OfSetting(setting)),
    }
}

/// Reads a value as its setting does.
#[derive(Clone, Copy, Debug)]
struct OfSetting(&'static Setting);

impl TypedValueParser for OfSetting {
    type Value = String;

    fn parse_ref(&self, command: &Command, _: Option<&Arg>, value: &OsStr) -> Result<String, Error> {
        let text = value.to_string_lossy();
        self.0.kind.parse(&text).map_err(|sentence| match self.0.kind {
            Kind::Word { what, words, .. } => refuse(command, &unknown(what, &text, words)),
            _ => refuse(command, &sentence),
        })
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let Kind::Word { words, .. } = self.0.kind else { return None };
        Some(Box::new(words.iter().map(PossibleValue::new)))
    }
}

/// Reads the name of a mode.
#[derive(Clone, Copy, Debug)]
pub(super) struct ModeName;

impl TypedValueParser for ModeName {
    type Value = Mode;

    fn parse_ref(&self, command: &Command, _: Option<&Arg>, value: &OsStr) -> Result<Mode, Error> {
        let text = value.to_string_lossy();
        Mode::named(&text.to_lowercase()).ok_or_else(|| refuse(command, &unknown("mode", &text, &names())))
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let value = |mode: &Mode| PossibleValue::new(mode.name()).aliases(mode.aliases()).help(mode.about());
        Some(Box::new(registry::MODES.iter().map(value)))
    }
}

fn names() -> Vec<&'static str> {
    registry::MODES.iter().map(|mode| mode.name()).collect()
}

/// Refuses settings that mean nothing to a mode.
pub(super) fn refuse_foreign_settings(mode: Mode, values: &Values) -> Result<(), Failure> {
    let foreign = values.given().find(|flag| mode.setting(flag).is_none());
    let home = foreign.and_then(|flag| registry::MODES.iter().find(|mode| mode.setting(flag).is_some()));
    let Some((flag, home)) = foreign.zip(home) else { return Ok(()) };
    Err(Failure::usage(format!(
        "`--{flag}` means nothing in mode `{mode}`: leave it out, or add `--mode {home}`"
    )))
}
