//! A mode of which nothing is known: what the list of cases makes of one that is added tomorrow.
//!
//! It says of itself what every mode must say, and nothing else. It is in no registry, and nothing is opened.

use dataplane::leftovers::{CleanedUp, CleanupRequest, Leftovers, Serving, TakenOver};
use dataplane::{Deployment, Mode, ModeSpec, OpenError, OpenRequest, Opened, RenderRequest};
use model::Promises;

use crate::case::Case;
use crate::cases::{self, of_modes};
use crate::way::Way;

/// Cases of modes whose connections the kernel carries, which is what a mode does that says nothing else.
const OF_THE_KERNEL: [&str; 1] = ["root_twenty_restarts_and_twenty_kills_break_nothing"];

static NEWCOMER: Mode = Mode::new(&Newcomer);

struct Newcomer;

impl ModeSpec for Newcomer {
    fn name(&self) -> &'static str {
        "newcomer"
    }

    fn about(&self) -> &'static str {
        "Nothing is known of it"
    }

    fn semantics(&self) -> Promises {
        Promises::default()
    }

    fn open(&self, _: &OpenRequest<'_>) -> Result<Opened, OpenError> {
        Err(OpenError::Host("it cannot be opened".to_owned()))
    }

    fn render(&self, _: &RenderRequest<'_>) -> String {
        String::new()
    }

    fn leftovers(&self) -> Box<dyn Leftovers> {
        Box::new(Nothing)
    }

    fn deployments(&self) -> &'static [Deployment] {
        &[Deployment { overlay: "newcomer", program: None, capabilities: &[], packages: &[] }]
    }
}

struct Nothing;

impl Leftovers for Nothing {
    fn take_over(&mut self, _: &mut Serving<'_>, _: &mut TakenOver) -> Result<(), String> {
        Ok(())
    }

    fn clean_up(&mut self, _: &CleanupRequest) -> Result<CleanedUp, OpenError> {
        Ok(CleanedUp::default())
    }
}

pub(crate) fn a_mode_of_which_nothing_is_known_has_the_common_cases_alone() {
    let ways: Vec<Way> = Way::of_mode(NEWCOMER).collect();
    let [way] = ways[..] else { panic!("it is deployed in one way: {ways:?}") };
    assert_eq!((way.module(), way.rules()), ("newcomer".to_owned(), None));
    let names = |cases: &[Case]| -> Vec<String> {
        cases.iter().filter_map(|case| case.test("here", way)).map(|test| test.name().to_owned()).collect()
    };
    assert_eq!(names(of_modes::CASES), Vec::<String>::new());
    let is_expected = |case: &&Case| case.is_common() || OF_THE_KERNEL.contains(&case.name());
    let common = cases::CASES.iter().filter(is_expected);
    let common: Vec<String> = common.map(|case| format!("here::{}", case.name())).collect();
    assert_eq!(names(cases::CASES), common);
    assert!(cases::CASES.iter().chain(of_modes::CASES).all(|case| case.smoke_test(way).is_none()));
}
