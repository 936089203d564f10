//! The claimer over all that a network, a store and other agents do to it: a model of several agents in which every
//! question is put, carried out and answered at different moments, any of them may be lost, and agents die.

use std::time::Duration;

use jiff::Timestamp;
use proptest::prelude::*;

use super::body::{Claim, Holder, State};
use super::claimer::{Answer, Claimer, Question, Step};
use super::store::{Entry, Version};

const LEASE: Duration = Duration::from_secs(30);
const TAKES: Duration = Duration::from_secs(10);

fn holder(number: usize) -> Holder {
    Holder { host: format!("tm-{number}"), pid: 1, token: number.to_string() }
}

fn body(number: usize, state: State) -> Vec<u8> {
    let lease_ms = u64::try_from(LEASE.as_millis()).unwrap();
    let written_at = Timestamp::UNIX_EPOCH;
    let (holder, target) = (holder(number), "ops".to_owned());
    let notice = None;
    Claim { schema: 1, state, holder, beat: 1, lease_ms, target, refusals: 0, written_at, notice }.to_bytes()
}

/// One document with versions.
#[derive(Default)]
struct Register {
    document: Option<(u64, Vec<u8>)>,
    versions: u64,
}

impl Register {
    fn carry_out(&mut self, question: &Question, body: Vec<u8>) -> Answer {
        let version = |number: u64| Version(number.to_string());
        let matches = match question {
            Question::Read => {
                let found = self.document.clone();
                return Answer::Found(found.map(|(number, body)| Entry { version: version(number), body }));
            }
            Question::Create => self.document.is_none(),
            Question::Swap(expected) => self.document.as_ref().is_some_and(|(number, _)| version(*number) == *expected),
        };
        if !matches {
            return Answer::Refused;
        }
        self.versions += 1;
        self.document = Some((self.versions, body));
        Answer::Written(version(self.versions))
    }
}

enum Doing {
    Idle,
    /// A question on its way; `answer` once it was carried out. `is_end`: it notes the delivery.
    Asking {
        question: Question,
        asked: Duration,
        answer: Option<Answer>,
        is_end: bool,
    },
    Sending {
        since: Duration,
        is_by_claim: bool,
    },
    Done,
    Dead,
}

struct Agent {
    claimer: Claimer,
    doing: Doing,
    wakes: Duration,
}

struct Model {
    agents: Vec<Agent>,
    store: Register,
    now: Duration,
    deliveries: usize,
}

#[derive(Debug, Clone)]
enum Action {
    /// The agent does its next thing.
    Act(usize),
    /// Its question is lost, or its answer.
    Lose(usize),
    /// It dies.
    Kill(usize),
    /// Time goes by, in ms.
    Pass(u64),
}

impl Model {
    fn new(agents: usize) -> Model {
        let agent = |number| {
            let claimer = Claimer::new(holder(number), LEASE);
            Agent { claimer, doing: Doing::Idle, wakes: Duration::ZERO }
        };
        let agents = (0..agents).map(agent).collect();
        Model { agents, store: Register::default(), now: Duration::ZERO, deliveries: 0 }
    }

    fn play(&mut self, action: &Action) {
        match action {
            Action::Act(number) => self.act(number % self.agents.len()),
            Action::Lose(number) => self.lose(number % self.agents.len()),
            Action::Kill(number) => {
                let number = number % self.agents.len();
                self.agents[number].doing = Doing::Dead;
            }
            Action::Pass(ms) => self.pass(Duration::from_millis(*ms)),
        }
    }

    /// Sends end in time, whatever else stands still.
    fn pass(&mut self, time: Duration) {
        self.now += time;
        for number in 0..self.agents.len() {
            if matches!(self.agents[number].doing, Doing::Sending { since, .. } if self.now - since > TAKES) {
                self.delivered(number);
            }
        }
    }

    fn act(&mut self, number: usize) {
        let now = self.now;
        let agent = &mut self.agents[number];
        match &mut agent.doing {
            Doing::Idle => {
                agent.claimer.begin();
                self.decide(number);
            }
            Doing::Asking { question, answer: answer @ None, is_end, .. } => {
                let state = if *is_end { State::Delivered } else { State::Sending };
                *answer = Some(self.store.carry_out(question, body(number, state)));
            }
            Doing::Asking { question, asked, answer: Some(answer), is_end } => {
                let (question, asked, answer, is_end) = (question.clone(), *asked, answer.clone(), *is_end);
                if is_end {
                    agent.doing = Doing::Done;
                    return;
                }
                agent.claimer.answered(&question, answer, asked, now);
                self.decide(number);
            }
            Doing::Sending { .. } => self.delivered(number),
            Doing::Done | Doing::Dead => {}
        }
    }

    fn decide(&mut self, number: usize) {
        let now = self.now;
        let agent = &mut self.agents[number];
        agent.doing = match agent.claimer.next(now, TAKES) {
            Step::Ask(question) => Doing::Asking { question, asked: now, answer: None, is_end: false },
            Step::Go => {
                let is_by_claim = agent.claimer.holds_for(now) > TAKES;
                Doing::Sending { since: now, is_by_claim }
            }
            Step::Wait(wait) => {
                agent.wakes = now + wait;
                Doing::Idle
            }
            Step::Elsewhere { .. } => {
                assert!(self.deliveries > 0, "agent {number} forgets what nobody has delivered");
                Doing::Done
            }
        };
        let senders = |agent: &&Agent| matches!(agent.doing, Doing::Sending { is_by_claim: true, .. });
        assert!(self.agents.iter().filter(senders).count() <= 1, "two agents send by their claims at {now:?}");
    }

    fn delivered(&mut self, number: usize) {
        self.deliveries += 1;
        let asked = self.now;
        let agent = &mut self.agents[number];
        agent.doing = match agent.claimer.held() {
            Some(version) => {
                Doing::Asking { question: Question::Swap(version.clone()), asked, answer: None, is_end: true }
            }
            None => Doing::Done,
        };
    }

    fn lose(&mut self, number: usize) {
        let now = self.now;
        let agent = &mut self.agents[number];
        let Doing::Asking { question, asked, is_end, .. } = &agent.doing else { return };
        if *is_end {
            agent.doing = Doing::Done;
            return;
        }
        let (question, asked) = (question.clone(), *asked);
        agent.claimer.answered(&question, Answer::Nothing, asked, now);
        self.decide(number);
    }

    /// From now on nothing fails any more.
    fn settle(&mut self) {
        for _ in 0..200 {
            for number in 0..self.agents.len() {
                for _ in 0..4 {
                    self.act(number);
                }
            }
            self.pass(Duration::from_secs(5));
        }
    }
}

fn actions() -> impl Strategy<Value = Vec<Action>> {
    let action = prop_oneof![
        12 => (0usize..8).prop_map(Action::Act),
        2 => (0usize..8).prop_map(Action::Lose),
        1 => (0usize..8).prop_map(Action::Kill),
        4 => prop_oneof![0u64..100, 0u64..12_000, 29_000u64..31_000].prop_map(Action::Pass),
    ];
    prop::collection::vec(action, 0..120)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, ..ProptestConfig::default() })]

    #[test]
    fn never_two_by_their_claims_and_never_none(agents in 1usize..5, actions in actions()) {
        let mut model = Model::new(agents);
        for action in &actions {
            model.play(action);
        }
        model.settle();
        let survivors = model.agents.iter().filter(|agent| !matches!(agent.doing, Doing::Dead)).count();
        if survivors > 0 {
            prop_assert!(model.deliveries > 0, "nobody sent");
        }
        let is_at_rest = |agent: &Agent| matches!(agent.doing, Doing::Done | Doing::Dead);
        prop_assert!(model.agents.iter().all(is_at_rest), "an agent waits for ever");
    }

    #[test]
    fn without_faults_exactly_one_sends(agents in 1usize..6, order in prop::collection::vec(0usize..6, 0..100)) {
        let mut model = Model::new(agents);
        for number in order {
            model.act(number % agents);
        }
        model.settle();
        prop_assert_eq!(model.deliveries, 1);
    }
}

#[test]
fn a_claim_lapses_by_the_observers_own_clock_only() {
    let mut claimer = Claimer::new(holder(1), LEASE);
    let found =
        |version: &str| Answer::Found(Some(Entry { version: Version(version.into()), body: body(2, State::Sending) }));
    let look = |claimer: &mut Claimer, version: &str, now: u64| {
        let now = Duration::from_secs(now);
        claimer.begin();
        claimer.answered(&Question::Read, found(version), now, now);
        claimer.next(now, TAKES)
    };
    assert_eq!(look(&mut claimer, "1", 0), Step::Wait(LEASE));
    assert_eq!(look(&mut claimer, "1", 29), Step::Wait(Duration::from_secs(1)));
    assert_eq!(look(&mut claimer, "2", 31), Step::Wait(LEASE), "it was renewed");
    assert_eq!(look(&mut claimer, "2", 61), Step::Ask(Question::Swap(Version("2".into()))));
}

#[test]
fn a_send_that_takes_longer_than_what_is_left_waits_for_a_renewal() {
    let mut claimer = Claimer::new(holder(1), LEASE);
    let written = Answer::Written(Version("1".into()));
    claimer.answered(&Question::Create, written, Duration::ZERO, Duration::from_secs(2));
    assert_eq!(claimer.next(Duration::from_secs(19), TAKES), Step::Go);
    // The lease counts from before the write.
    assert_eq!(claimer.next(Duration::from_secs(20), TAKES), Step::Ask(Question::Swap(Version("1".into()))));
}

#[test]
fn who_knows_of_a_living_holder_waits_out_its_lease_when_the_store_goes() {
    let mut claimer = Claimer::new(holder(1), LEASE);
    let entry = Entry { version: Version("1".into()), body: body(2, State::Sending) };
    claimer.answered(&Question::Read, Answer::Found(Some(entry)), Duration::ZERO, Duration::ZERO);
    claimer.begin();
    claimer.answered(&Question::Read, Answer::Nothing, Duration::ZERO, Duration::from_secs(10));
    assert_eq!(claimer.next(Duration::from_secs(10), TAKES), Step::Wait(Duration::from_secs(20)));
    assert_eq!(claimer.next(Duration::from_secs(30), TAKES), Step::Go);
}

#[test]
fn what_was_left_is_taken_at_once_and_what_is_not_understood_lapses() {
    let mut claimer = Claimer::new(holder(1), LEASE);
    let found = |body| Answer::Found(Some(Entry { version: Version("1".into()), body }));
    claimer.answered(&Question::Read, found(body(2, State::Free)), Duration::ZERO, Duration::ZERO);
    assert_eq!(claimer.next(Duration::ZERO, TAKES), Step::Ask(Question::Swap(Version("1".into()))));
    let mut claimer = Claimer::new(holder(1), LEASE);
    claimer.answered(&Question::Read, found(b"{".to_vec()), Duration::ZERO, Duration::ZERO);
    assert_eq!(claimer.next(Duration::ZERO, TAKES), Step::Wait(LEASE));
}
