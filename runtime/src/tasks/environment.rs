//! The environment of an agent around a task.
//!
//! It turns control steps into decisions, gives episodes a fixed length, and checks all numbers.

use std::collections::VecDeque;

use dsl::hir::{self, Setting};

use super::mujoco::Rules;
use super::scene::Scene;
use super::{Perturbation, Spec, Task, TaskError};

/// What a `.wm` file says about a task besides its sizes.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// Control steps of one decision.
    pub repeat: u64,
    /// How long an episode is.
    pub length: Length,
    /// A learner is told that the state at the time limit is terminal, and does not bootstrap from it.
    pub limit_is_terminal: bool,
    /// The reward of a decision is the sum over its control steps, not the mean.
    pub sum: bool,
    pub reward_scale: f64,
    /// Decisions by which actions are late.
    pub delay: usize,
    /// Part of an observation's entries that is zeroed.
    pub mask: f64,
    /// `embedded`, `mujoco`, or whichever there is.
    pub physics: Option<String>,
    /// A model of the user's own, with its rules.
    pub mjcf: Option<Rules>,
}

/// The time limit of an episode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Length {
    Decisions(u64),
    /// Steps of the simulator. The last decision may have fewer of them than `repeat` says.
    ControlSteps(u64),
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            repeat: 1,
            length: Length::Decisions(1000),
            limit_is_terminal: false,
            sum: false,
            reward_scale: 1.0,
            delay: 0,
            mask: 0.0,
            physics: None,
            mjcf: None,
        }
    }
}

impl Settings {
    const KNOWN: &str = "repeat, length, control_steps, limit, reward, reward_scale, delay, mask, physics; with mjcf also substeps, observe, rewards, control_cost, ends_below, noise";

    /// The settings of a task of a checked model.
    pub fn of(task: &hir::Task) -> Result<Settings, TaskError> {
        let mut settings = Settings::default();
        // The file first: the other settings are about it.
        let (file, others): (Vec<_>, Vec<_>) = task.settings.iter().partition(|(name, _)| name == "mjcf");
        for (name, value) in file.into_iter().chain(others) {
            settings.set(&task.name, name, value)?;
        }
        Ok(settings)
    }

    /// Decisions of an episode that ends by time.
    pub fn decisions(&self) -> u64 {
        match self.length {
            Length::Decisions(n) => n,
            Length::ControlSteps(n) => n.div_ceil(self.repeat),
        }
    }

    /// Control steps of the decision that comes after `before` others.
    fn control_steps(&self, before: u64) -> u64 {
        match self.length {
            Length::Decisions(_) => self.repeat,
            Length::ControlSteps(n) => self.repeat.min(n.saturating_sub(before * self.repeat)),
        }
    }

    /// A setting that can be changed from outside, as it stands.
    pub fn shown(&self, name: &str) -> String {
        match name {
            "repeat" => self.repeat.to_string(),
            "length" => self.decisions().to_string(),
            "control_steps" => match self.length {
                Length::ControlSteps(n) => n,
                Length::Decisions(n) => n * self.repeat,
            }
            .to_string(),
            "limit" => if self.limit_is_terminal { "terminal" } else { "bootstrap" }.into(),
            "reward" => if self.sum { "sum" } else { "mean" }.into(),
            "reward_scale" => self.reward_scale.to_string(),
            "delay" => self.delay.to_string(),
            "mask" => self.mask.to_string(),
            _ => self.physics.clone().unwrap_or_else(|| "whichever there is".into()),
        }
    }

    /// Changes one setting.
    pub fn set(&mut self, task: &str, name: &str, value: &Setting) -> Result<(), TaskError> {
        let wrong = |wanted: &'static str| TaskError::SettingValue {
            task: task.to_string(),
            setting: name.to_string(),
            found: shown(value),
            wanted,
        };
        let number = |least: f64, wanted: &'static str| match value {
            Setting::Number(x) if x.is_finite() && *x >= least => Ok(*x),
            _ => Err(wrong(wanted)),
        };
        let count = |least: f64, wanted: &'static str| {
            number(least, wanted).and_then(|x| if x.fract() == 0.0 && x < 1e9 { Ok(x as u64) } else { Err(wrong(wanted)) })
        };
        match name {
            "repeat" => self.repeat = count(1.0, "a whole number from 1 on")?,
            "length" => self.length = Length::Decisions(count(1.0, "a whole number from 1 on")?),
            "control_steps" => self.length = Length::ControlSteps(count(1.0, "a whole number from 1 on")?),
            "limit" => match value {
                Setting::Text(t) if t == "terminal" => self.limit_is_terminal = true,
                Setting::Text(t) if t == "bootstrap" => self.limit_is_terminal = false,
                _ => return Err(wrong("\"bootstrap\" or \"terminal\"")),
            },
            "delay" => self.delay = count(0.0, "a whole number")? as usize,
            "reward_scale" => self.reward_scale = number(f64::MIN_POSITIVE, "a positive number")?,
            "mask" => {
                self.mask = number(0.0, "a number from 0 to 1")
                    .and_then(|x| if x <= 1.0 { Ok(x) } else { Err(wrong("a number from 0 to 1")) })?
            }
            "reward" => match value {
                Setting::Text(t) if t == "sum" => self.sum = true,
                Setting::Text(t) if t == "mean" => self.sum = false,
                _ => return Err(wrong("\"mean\" or \"sum\"")),
            },
            "physics" => match value {
                Setting::Text(t) if t == "embedded" || t == "mujoco" => self.physics = Some(t.clone()),
                _ => return Err(wrong("\"embedded\" or \"mujoco\"")),
            },
            "mjcf" => match value {
                Setting::Text(file) => self.mjcf = Some(Rules { file: file.clone(), substeps: 1, ..Rules::default() }),
                _ => return Err(wrong("the name of a file")),
            },
            "substeps" | "observe" | "rewards" | "control_cost" | "ends_below" | "noise" if self.mjcf.is_some() => {
                let mut rules = self.mjcf.take().unwrap_or_default();
                match name {
                    "substeps" => rules.substeps = count(1.0, "a whole number from 1 on")? as usize,
                    "control_cost" => rules.control_cost = number(0.0, "a number from 0 on")?,
                    "noise" => rules.noise = number(0.0, "a number from 0 on")?,
                    "observe" => rules.observe = words(value).ok_or_else(|| wrong("a list of names, as in [\"positions\"]"))?,
                    "rewards" => rules.rewards = sensors(value).ok_or_else(|| wrong(SENSORS))?,
                    _ => rules.ends_below = sensors(value).ok_or_else(|| wrong(SENSORS))?,
                }
                self.mjcf = Some(rules);
            }
            _ => {
                return Err(TaskError::Setting {
                    task: task.to_string(),
                    setting: name.to_string(),
                    known: Settings::KNOWN.into(),
                });
            }
        }
        Ok(())
    }
}

const SENSORS: &str = "a list of sensors with numbers, as in [\"speed 0.1\"]";

/// `["speed 0.1", "height 1"]`.
fn sensors(value: &Setting) -> Option<Vec<(String, f64)>> {
    let Setting::List(all) = value else { return None };
    let one = |value: &Setting| match value {
        Setting::Text(text) => {
            let (name, number) = text.trim().rsplit_once(' ')?;
            Some((name.trim().to_string(), number.parse().ok()?))
        }
        _ => None,
    };
    all.iter().map(one).collect()
}

fn words(value: &Setting) -> Option<Vec<String>> {
    let Setting::List(all) = value else { return None };
    all.iter().map(|value| if let Setting::Text(text) = value { Some(text.clone()) } else { None }).collect()
}

fn shown(value: &Setting) -> String {
    match value {
        Setting::Number(x) => x.to_string(),
        Setting::Flag(b) => b.to_string(),
        Setting::Text(t) => format!("\"{t}\""),
        Setting::List(all) => format!("[{}]", all.iter().map(shown).collect::<Vec<_>>().join(", ")),
    }
}

/// What a decision leads to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Transition {
    pub reward: f64,
    /// What the future counts for: 0 where nothing comes after, else 1.
    pub discount: f64,
    pub terminal: bool,
    /// The episode is over, by a terminal state or by its length.
    pub last: bool,
}

impl Transition {
    pub fn new(reward: f64, terminal: bool, last: bool) -> Transition {
        Transition { reward, discount: if terminal { 0.0 } else { 1.0 }, terminal, last }
    }
}

/// A task with its settings. Between calls it has an observation.
#[derive(Debug)]
pub struct Environment {
    task: Box<dyn Task>,
    settings: Settings,
    seed: u64,
    step: u64,
    late: VecDeque<Vec<f64>>,
    observation: Vec<f64>,
}

impl Environment {
    /// Starts the first episode.
    pub fn new(task: Box<dyn Task>, settings: Settings, seed: u64) -> Result<Environment, TaskError> {
        let observation = vec![0.0; task.spec().observation];
        let mut environment = Environment { task, settings, seed, step: 0, late: VecDeque::new(), observation };
        environment.reset(seed)?;
        Ok(environment)
    }

    pub fn spec(&self) -> &Spec {
        self.task.spec()
    }

    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Decisions taken in this episode.
    pub fn elapsed(&self) -> u64 {
        self.step
    }

    pub fn observation(&self) -> &[f64] {
        &self.observation
    }

    pub fn energy(&mut self) -> Option<f64> {
        self.task.energy()
    }

    /// What the task itself measures, by name; none where it does not know it.
    pub fn quantity(&mut self, name: &str) -> Option<f64> {
        match name {
            "energy" => self.energy(),
            _ => None,
        }
    }

    /// What the task looks like now, where it knows.
    pub fn scene(&mut self) -> Option<Scene> {
        self.task.scene()
    }

    /// Changes the task from the next episode on.
    pub fn perturb(&mut self, change: Perturbation) -> Result<(), TaskError> {
        match change {
            Perturbation::Delay(n) => self.settings.delay = n,
            Perturbation::Mask(part) => self.settings.mask = part,
            _ => self.task.perturb(change)?,
        }
        Ok(())
    }

    pub fn reset(&mut self, seed: u64) -> Result<(), TaskError> {
        self.task.reset(seed)?;
        (self.seed, self.step) = (seed, 0);
        self.late = (0..self.settings.delay).map(|_| vec![0.0; self.task.spec().action]).collect();
        self.look()
    }

    /// One decision. What lies outside of -1..1 is clipped.
    pub fn step(&mut self, action: impl IntoIterator<Item = f64>) -> Result<Transition, TaskError> {
        self.late.push_back(action.into_iter().map(|a| a.clamp(-1.0, 1.0)).collect());
        let action = self.late.pop_front().unwrap_or_default();
        let wanted = self.task.spec().action;
        if action.len() != wanted {
            return Err(TaskError::Size { task: self.name(), what: "actions", found: wanted, wanted: action.len() });
        }
        let steps = self.settings.control_steps(self.step).max(1);
        self.step += 1;
        let (mut reward, mut terminal, mut taken) = (0.0, false, 0u32);
        while !terminal && u64::from(taken) < steps {
            let outcome = self.task.step(&action)?;
            reward += outcome.reward;
            terminal = outcome.terminal;
            taken += 1;
        }
        if !self.settings.sum {
            reward /= f64::from(taken);
        }
        reward *= self.settings.reward_scale;
        // Experience is single precision.
        if !(reward as f32).is_finite() {
            return Err(self.not_finite("reward".into(), reward));
        }
        self.look()?;
        let over = self.step >= self.settings.decisions();
        Ok(Transition::new(reward, terminal || over && self.settings.limit_is_terminal, terminal || over))
    }

    fn name(&self) -> String {
        self.task.spec().name.clone()
    }

    fn not_finite(&self, what: String, value: f64) -> TaskError {
        TaskError::NotFinite { task: self.name(), what, value, step: self.step }
    }

    fn look(&mut self) -> Result<(), TaskError> {
        self.task.observe(&mut self.observation);
        if let Some(i) = self.observation.iter().position(|x| !(*x as f32).is_finite()) {
            return Err(self.not_finite(format!("entry {i} of the observation"), self.observation[i]));
        }
        if self.settings.mask > 0.0 {
            let hide = compiler::random::Stream::new("mask", self.seed, "environment", self.step);
            for (i, x) in self.observation.iter_mut().enumerate() {
                if hide.uniform(i as u64) < self.settings.mask {
                    *x = 0.0;
                }
            }
        }
        Ok(())
    }

    /// Everything that the rest of the episode depends on: seed and step, actions under way, the task's own state.
    pub fn save(&self) -> Vec<f64> {
        let halves = [self.seed >> 32, self.seed & 0xffff_ffff, self.step].map(|x| x as f64);
        halves.into_iter().chain(self.late.iter().flatten().copied()).chain(self.task.save()).collect()
    }

    /// Goes on from a saved state, to the same bits.
    pub fn restore(&mut self, state: &[f64]) -> Result<(), TaskError> {
        let size = self.task.spec().action;
        let head = 3 + self.settings.delay * size;
        if state.len() < head {
            return Err(TaskError::State { task: self.name(), found: state.len(), wanted: head });
        }
        self.task.restore(&state[head..])?;
        self.seed = (state[0] as u64) << 32 | state[1] as u64;
        self.step = state[2] as u64;
        self.late = state[3..head].chunks(size.max(1)).map(<[f64]>::to_vec).collect();
        self.look()
    }
}

#[cfg(test)]
mod tests {
    use super::super::pendulum::Pendulum;
    use super::*;

    /// Rewards its step's number, and shows the action it got.
    #[derive(Debug)]
    struct Counting {
        spec: Spec,
        step: f64,
        seen: f64,
        ends: f64,
    }

    impl Task for Counting {
        fn spec(&self) -> &Spec {
            &self.spec
        }
        fn reset(&mut self, _: u64) -> Result<(), TaskError> {
            (self.step, self.seen) = (0.0, 0.0);
            Ok(())
        }
        fn step(&mut self, action: &[f64]) -> Result<super::super::Outcome, TaskError> {
            self.step += 1.0;
            self.seen = action[0];
            Ok(super::super::Outcome { reward: self.step, terminal: self.step == self.ends })
        }
        fn observe(&self, observation: &mut [f64]) {
            observation.fill(self.seen + 1.0);
        }
        fn save(&self) -> Vec<f64> {
            vec![self.step, self.seen]
        }
        fn restore(&mut self, state: &[f64]) -> Result<(), TaskError> {
            [self.step, self.seen] = super::super::saved(&self.spec, state)?;
            Ok(())
        }
        fn perturb(&mut self, _: Perturbation) -> Result<(), TaskError> {
            Ok(())
        }
    }

    fn counting(settings: Settings, ends: f64, observation: usize) -> Environment {
        let spec = Spec { name: "counting".into(), observation, action: 1 };
        Environment::new(Box::new(Counting { spec, step: 0.0, seen: 0.0, ends }), settings, 1).unwrap()
    }

    #[test]
    fn rewards_of_a_repeated_action_are_averaged_or_summed() {
        let repeat = Settings { repeat: 4, length: Length::Decisions(2), ..Settings::default() };
        let mut mean = counting(repeat.clone(), -1.0, 1);
        assert_eq!(mean.step([0.5]).unwrap(), Transition::new(2.5, false, false));
        assert_eq!(mean.step([0.5]).unwrap(), Transition::new(6.5, false, true));
        let mut sum = counting(Settings { sum: true, ..repeat.clone() }, -1.0, 1);
        assert_eq!(sum.step([0.5]).unwrap().reward, 10.0);
        let mut short = counting(repeat, 2.0, 1);
        assert_eq!(short.step([0.5]).unwrap(), Transition::new(1.5, true, true));
    }

    #[test]
    fn control_steps_end_an_episode_inside_a_decision() {
        let length = Length::ControlSteps(10);
        let settings = Settings { repeat: 4, length, sum: true, limit_is_terminal: true, ..Settings::default() };
        assert_eq!(settings.decisions(), 3);
        let mut task = counting(settings, -1.0, 1);
        assert_eq!(task.step([0.0]).unwrap(), Transition::new(10.0, false, false));
        assert_eq!(task.step([0.0]).unwrap(), Transition::new(26.0, false, false));
        // Two control steps are left. The time limit is terminal where the settings say so.
        let end = task.step([0.0]).unwrap();
        assert_eq!(end, Transition::new(19.0, true, true));
        assert_eq!((end.discount, Transition::new(19.0, false, true).discount), (0.0, 1.0));
    }

    #[test]
    fn the_last_length_counts() {
        let mut settings = Settings { repeat: 4, ..Settings::default() };
        let mut set = |name: &str, n: f64| {
            settings.set("counting", name, &Setting::Number(n)).unwrap();
            (settings.decisions(), settings.shown("control_steps"))
        };
        assert_eq!(set("control_steps", 200.0), (50, "200".into()));
        assert_eq!(set("length", 7.0), (7, "28".into()));
    }

    #[test]
    fn actions_arrive_late_and_clipped() {
        let mut late = counting(Settings { delay: 2, ..Settings::default() }, -1.0, 1);
        let seen: Vec<f64> = [0.25, 9.0, 0.75, 0.0]
            .into_iter()
            .map(|a| {
                late.step([a]).unwrap();
                late.observation()[0] - 1.0
            })
            .collect();
        assert_eq!(seen, [0.0, 0.0, 0.25, 1.0]);
    }

    #[test]
    fn a_mask_hides_its_part_and_changes_every_step() {
        let mut masked = counting(Settings { mask: 0.3, ..Settings::default() }, -1.0, 5000);
        let mut hidden = || {
            masked.step([0.5]).unwrap();
            masked.observation().iter().map(|x| *x == 0.0).collect::<Vec<_>>()
        };
        let (a, b) = (hidden(), hidden());
        let part = a.iter().filter(|h| **h).count() as f64 / 5000.0;
        assert!((part - 0.3).abs() < 0.03, "{part}");
        assert_ne!(a, b);
    }

    #[test]
    fn a_saved_state_goes_on_to_the_same_bits() {
        let settings = Settings { delay: 1, mask: 0.2, repeat: 3, ..Settings::default() };
        let mut one = Environment::new(Box::new(Pendulum::default()), settings.clone(), 77).unwrap();
        let mut other = Environment::new(Box::new(Pendulum::default()), settings, 5).unwrap();
        (0..7).for_each(|i| _ = one.step([0.1 * f64::from(i)]).unwrap());
        other.restore(&one.save()).unwrap();
        assert_eq!(one.observation(), other.observation());
        for i in 0..20 {
            assert_eq!(one.step([0.05 * f64::from(i)]), other.step([0.05 * f64::from(i)]));
            assert_eq!(one.observation(), other.observation());
        }
        assert!(other.restore(&[1.0]).is_err() && other.restore(&[0.0; 9]).is_err());
    }
}
