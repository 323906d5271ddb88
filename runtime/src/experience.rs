//! Experience: the stream of what an agent saw and did.
//!
//! A row is an observation with what followed from it: the action, its reward, whether it was the end. The last observation of
//! an episode has a row too, in which nothing follows. Rows are single precision, laid out as the model's fields are.

use std::collections::VecDeque;

use compiler::random::Stream;
use dsl::hir::{Model, Source};

use crate::Error;
use crate::tasks::Transition;

/// What a task gives for a field of the data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Meaning {
    Observation,
    First,
    Action,
    Reward,
    Discount,
    Terminal,
}

impl Meaning {
    /// The number of what followed from a decision.
    pub(crate) fn of(self, outcome: &Transition) -> f32 {
        match self {
            Meaning::Reward => outcome.reward as f32,
            Meaning::Discount => outcome.discount as f32,
            Meaning::Terminal => f32::from(u8::from(outcome.terminal)),
            Meaning::Observation | Meaning::First | Meaning::Action => 0.0,
        }
    }
}

/// A field of a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    /// `data.obs`: the name by which programs read it.
    pub input: String,
    pub meaning: Meaning,
    start: usize,
    width: usize,
}

/// The fields of a model's data, side by side.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    pub fields: Vec<Field>,
    pub width: usize,
    /// Numbers of an observation and of an action.
    pub observation: usize,
    pub action: usize,
}

impl Layout {
    /// The layout of a model whose sizes are all known.
    pub fn of(model: &Model) -> Result<Layout, Error> {
        let mut layout = Layout { fields: Vec::new(), width: 0, observation: 0, action: 0 };
        for (i, input) in model.inputs.iter().enumerate() {
            let meaning = match input.name.as_str() {
                _ if i == model.action.input => Meaning::Action,
                "obs" => Meaning::Observation,
                "first" => Meaning::First,
                "r" => Meaning::Reward,
                "discount" => Meaning::Discount,
                "terminal" => Meaning::Terminal,
                other => return Err(Error::Field { field: other.to_string() }),
            };
            let mut width = 1;
            for axis in &input.axes {
                let size = &model.axis(*axis).size;
                width *= size.value().ok_or_else(|| Error::Unbound(size.symbols().join(", ")))? as usize;
            }
            match meaning {
                Meaning::Observation => layout.observation = width,
                Meaning::Action => layout.action = width,
                Meaning::First | Meaning::Reward | Meaning::Discount | Meaning::Terminal => {}
            }
            layout.fields.push(Field { input: format!("data.{}", input.name), meaning, start: layout.width, width });
            layout.width += width;
        }
        Ok(layout)
    }

    pub fn field(&self, input: &str) -> Option<&Field> {
        self.fields.iter().find(|f| f.input == input)
    }
}

/// Rows in the order in which they came, the oldest ones forgotten.
#[derive(Debug, Clone, PartialEq)]
pub struct Experience {
    layout: Layout,
    capacity: usize,
    /// Observations of a segment.
    time: usize,
    /// Segments may run from one episode into the next.
    cross: bool,
    /// Episodes are drawn with the same chance, and then a segment in them.
    by_episode: bool,
    /// Row `i` of the whole stream lies at `i % capacity`.
    rows: Vec<f32>,
    /// The place of each row in its episode.
    places: Vec<u32>,
    /// Rows that there were in all.
    total: u64,
    /// Rows at which a segment ends.
    ends: u64,
    /// The first row of each episode that is still there.
    episodes: VecDeque<u64>,
}

/// What has been stored, in order, for a checkpoint.
#[derive(Debug, Clone, PartialEq)]
pub struct Stored {
    pub rows: Vec<f32>,
    pub places: Vec<u32>,
    pub total: u64,
}

impl Experience {
    pub fn new(layout: Layout, capacity: usize, time: usize, cross: bool) -> Experience {
        let capacity = capacity.max(time).max(1);
        let (rows, places, episodes) = (Vec::new(), Vec::new(), VecDeque::new());
        Experience { layout, capacity, time, cross, by_episode: false, rows, places, total: 0, ends: 0, episodes }
    }

    /// The same, but a segment is drawn by drawing its episode first.
    fn by_episode(self, by_episode: bool) -> Experience {
        Experience { by_episode, ..self }
    }

    /// The experience that a model's source asks for.
    pub(crate) fn of(model: &Model, layout: Layout) -> Experience {
        match &model.source {
            Source::Replay { capacity, cross, by_episode, time, .. } => {
                let time = model.axis(time.axis).size.value().unwrap_or(1) as usize;
                let capacity = usize::try_from(*capacity).unwrap_or(usize::MAX);
                Experience::new(layout, capacity, time, *cross).by_episode(*by_episode)
            }
            // The end of an episode adds two rows at once.
            Source::Rollout { steps, .. } => Experience::new(layout, *steps as usize + 2, 1, true),
        }
    }

    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    pub fn len(&self) -> usize {
        self.places.len()
    }

    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Bytes when it is full.
    pub fn bytes(&self) -> usize {
        self.capacity.saturating_mul(4 * (self.layout.width + 1))
    }

    /// The oldest row that is still there.
    fn oldest(&self) -> u64 {
        self.total - self.len() as u64
    }

    fn slot(&self, row: u64) -> usize {
        (row % self.capacity as u64) as usize
    }

    fn place(&self, row: u64) -> usize {
        self.places[self.slot(row)] as usize
    }

    /// Whether a segment may end at a row, if all its rows are there.
    fn ends_at(&self, row: u64) -> bool {
        self.cross || self.place(row) + 1 >= self.time
    }

    /// An observation, of which nothing follows so far.
    pub fn observe(&mut self, observation: &[f64], first: bool) {
        if self.len() == self.capacity {
            // The segment that starts at the row which is now lost.
            let end = self.oldest() + self.time as u64 - 1;
            if end < self.total && self.ends_at(end) {
                self.ends -= 1;
            }
        } else {
            self.rows.resize(self.rows.len() + self.layout.width, 0.0);
            self.places.push(0);
        }
        let row = self.total;
        self.total += 1;
        let place = if first || row == self.oldest() { 0 } else { self.place(row - 1) as u32 + 1 };
        let slot = self.slot(row);
        self.places[slot] = place;
        self.enter(row);
        for field in &self.layout.fields {
            let numbers = &mut self.rows[slot * self.layout.width + field.start..][..field.width];
            match field.meaning {
                Meaning::Observation => numbers.iter_mut().zip(observation).for_each(|(to, from)| *to = *from as f32),
                Meaning::First => numbers.fill(if first { 1.0 } else { 0.0 }),
                Meaning::Action | Meaning::Reward | Meaning::Terminal => numbers.fill(0.0),
                Meaning::Discount => numbers.fill(1.0),
            }
        }
        if row + 1 >= self.oldest() + self.time as u64 && self.ends_at(row) {
            self.ends += 1;
        }
    }

    /// Keeps the list of episodes when a row has come.
    fn enter(&mut self, row: u64) {
        if self.place(row) == 0 || self.episodes.is_empty() {
            self.episodes.push_back(row);
        }
        let oldest = self.oldest();
        while self.episodes.get(1).is_some_and(|next| *next <= oldest) {
            self.episodes.pop_front();
        }
        if let Some(first) = self.episodes.front_mut() {
            *first = oldest.max(*first);
        }
    }

    /// What followed from the newest observation.
    pub fn follow(&mut self, action: &[f32], outcome: &Transition) {
        let Some(row) = self.total.checked_sub(1) else { return };
        let slot = self.slot(row);
        for field in &self.layout.fields {
            let numbers = &mut self.rows[slot * self.layout.width + field.start..][..field.width];
            match field.meaning {
                Meaning::Action => numbers.copy_from_slice(action),
                Meaning::Observation | Meaning::First => {}
                meaning => numbers.fill(meaning.of(outcome)),
            }
        }
    }

    /// Starts of segments, each of those that there are with the same chance; or each episode that is long enough with the
    /// same chance, and then each segment in it.
    pub fn sample(&self, stream: Stream, count: usize) -> Result<Vec<u64>, Error> {
        if self.ends == 0 {
            return Err(Error::NoSegment { time: self.time, rows: self.len() });
        }
        let span = self.time as u64 - 1;
        let mut next = 0;
        // A number below another.
        let mut below = |choices: u64| {
            let [high, low, ..] = stream.words(next);
            next += 1;
            let wide = u64::from(high) << 32 | u64::from(low);
            ((u128::from(wide) * u128::from(choices)) >> 64) as u64
        };
        let by_segment = |below: &mut dyn FnMut(u64) -> u64| loop {
            let end = self.oldest() + span + below(self.total - self.oldest() - span);
            if self.ends_at(end) {
                return end - span;
            }
        };
        let by_episode = |below: &mut dyn FnMut(u64) -> u64| loop {
            let episode = below(self.episodes.len() as u64) as usize;
            let (first, end) = (self.episodes[episode], self.episodes.get(episode + 1).unwrap_or(&self.total));
            if end - first > span {
                return first + below(end - first - span);
            }
        };
        Ok((0..count).map(|_| if self.by_episode { by_episode(&mut below) } else { by_segment(&mut below) }).collect())
    }

    /// The numbers of a field for `steps` rows from each start on, one after the other.
    pub fn read(&self, starts: &[u64], field: &Field, steps: usize, out: &mut [f32]) {
        self.read_rows(starts.iter().flat_map(|start| (0..steps as u64).map(move |t| start + t)), field, out);
    }

    /// The numbers of a field in each of some rows.
    pub(crate) fn read_rows(&self, rows: impl Iterator<Item = u64>, field: &Field, out: &mut [f32]) {
        for (numbers, row) in out.chunks_exact_mut(field.width.max(1)).zip(rows) {
            let from = self.slot(row) * self.layout.width + field.start;
            numbers.copy_from_slice(&self.rows[from..from + field.width]);
        }
    }

    /// The first row of each episode that is there from its start to its end, with its rows. `length` is how many decisions
    /// an episode has that ends by time: the last one may still go on.
    pub(crate) fn whole(&self, length: u64) -> Vec<(u64, usize)> {
        let terminal = self.layout.fields.iter().find(|f| f.meaning == Meaning::Terminal);
        let starts: Vec<u64> = (self.oldest()..self.total).filter(|row| self.place(*row) == 0).collect();
        let ends = starts.iter().skip(1).copied().chain([self.total]);
        let whole = |(start, end): (&u64, u64)| {
            let rows = (end - start) as usize;
            // What a decision leads to stands in the row before the last.
            let stopped =
                rows > 1 && terminal.is_some_and(|f| self.rows[self.slot(end - 2) * self.layout.width + f.start] != 0.0);
            let over = end < self.total || stopped || rows as u64 > length;
            (rows > 1 && over).then_some((*start, rows))
        };
        starts.iter().zip(ends).filter_map(whole).collect()
    }

    /// How many of the `most` rows before one may be its past.
    pub fn past(&self, row: u64, most: usize) -> usize {
        let there = (row - self.oldest()) as usize;
        let own = if self.cross { there } else { there.min(self.place(row)) };
        own.min(most)
    }

    /// Whether there are segments to sample. None is an error once there should be some.
    pub fn ready(&self) -> Result<bool, Error> {
        match self.ends {
            0 if self.len() < self.capacity.min(20 * self.time) => Ok(false),
            0 => Err(Error::NoSegment { time: self.time, rows: self.len() }),
            _ => Ok(true),
        }
    }

    /// Forgets the oldest rows: those of a rollout that has been learnt from.
    pub fn forget(&mut self, rows: usize) {
        let mut stored = self.store();
        let rows = rows.min(stored.places.len());
        stored.rows.drain(..rows * self.layout.width);
        stored.places.drain(..rows);
        stored.total = stored.places.len() as u64;
        // What is left was stored a moment ago.
        let restored = self.restore(&stored);
        debug_assert!(restored.is_ok());
    }

    pub fn store(&self) -> Stored {
        let order = (self.oldest()..self.total).map(|row| self.slot(row));
        let width = self.layout.width;
        Stored {
            rows: order.clone().flat_map(|slot| &self.rows[slot * width..(slot + 1) * width]).copied().collect(),
            places: order.map(|slot| self.places[slot]).collect(),
            total: self.total,
        }
    }

    /// Goes on with what was stored.
    pub fn restore(&mut self, stored: &Stored) -> Result<(), Error> {
        let (count, width) = (stored.places.len(), self.layout.width);
        if stored.rows.len() != count * width || count > self.capacity || stored.total < count as u64 {
            return Err(Error::Stored { rows: count, capacity: self.capacity });
        }
        self.total = stored.total;
        self.rows = vec![0.0; count * width];
        self.places = vec![0; count];
        self.episodes.clear();
        let oldest = stored.total - count as u64;
        // While it is not full, rows lie in order from the start.
        if count < self.capacity && oldest != 0 {
            return Err(Error::Stored { rows: count, capacity: self.capacity });
        }
        for (i, row) in (oldest..stored.total).enumerate() {
            let slot = self.slot(row);
            self.places[slot] = stored.places[i];
            self.rows[slot * width..(slot + 1) * width].copy_from_slice(&stored.rows[i * width..(i + 1) * width]);
        }
        self.episodes = (oldest..stored.total).filter(|row| *row == oldest || self.place(*row) == 0).collect();
        let first_end = oldest + self.time as u64 - 1;
        self.ends = (first_end..self.total).filter(|row| self.ends_at(*row)).count() as u64;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout() -> Layout {
        let field = |input: &str, meaning, start| Field { input: input.into(), meaning, start, width: 1 };
        Layout {
            fields: vec![
                field("data.obs", Meaning::Observation, 0),
                field("data.a", Meaning::Action, 1),
                field("data.r", Meaning::Reward, 2),
                field("data.first", Meaning::First, 3),
            ],
            width: 4,
            observation: 1,
            action: 1,
        }
    }

    /// Episodes of these lengths, their observations numbered through.
    fn filled(capacity: usize, time: usize, cross: bool, episodes: &[usize]) -> Experience {
        let mut experience = Experience::new(layout(), capacity, time, cross);
        let mut number = 0.0;
        for length in episodes {
            for t in 0..=*length {
                experience.observe(&[number], t == 0);
                if t < *length {
                    experience.follow(&[number as f32 + 0.5], &Transition::new(number + 0.25, false, false));
                }
                number += 1.0;
            }
        }
        experience
    }

    fn segments(experience: &Experience, count: usize, steps: usize) -> Vec<Vec<f32>> {
        let starts = experience.sample(Stream::new("test", 1, "replay", 0), count).unwrap();
        let mut out = vec![0.0; count * steps];
        experience.read(&starts, &experience.layout().fields[0], steps, &mut out);
        out.chunks(steps).map(<[f32]>::to_vec).collect()
    }

    #[test]
    fn segments_stay_inside_an_episode_and_are_equally_likely() {
        // 11, 4 and 6 observations: with 5 a segment, 7 + 0 + 2 starts.
        let experience = filled(100, 5, false, &[10, 3, 5]);
        let mut counts = std::collections::BTreeMap::new();
        for segment in segments(&experience, 9000, 5) {
            assert!(segment.windows(2).all(|w| w[1] == w[0] + 1.0));
            *counts.entry(segment[0] as u32).or_insert(0) += 1;
        }
        assert_eq!(counts.keys().copied().collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5, 6, 15, 16]);
        assert!(counts.values().all(|n| (850..1150).contains(n)), "{counts:?}");
    }

    #[test]
    fn episodes_are_equally_likely_and_so_are_segments_in_them() {
        // 11, 4, 6 and 5 observations, of which the last episode still runs: with 5 a segment, 7 + 0 + 2 + 1 starts.
        let mut experience = filled(100, 5, false, &[10, 3, 5, 4]).by_episode(true);
        let mut counts = std::collections::BTreeMap::new();
        for segment in segments(&experience, 9000, 5) {
            assert!(segment.windows(2).all(|w| w[1] == w[0] + 1.0));
            *counts.entry(segment[0] as u32).or_insert(0) += 1;
        }
        assert_eq!(counts.keys().copied().collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5, 6, 15, 16, 21]);
        let near = |n: u32, wanted: u32| n.abs_diff(wanted) < wanted / 5;
        assert!((0..7).all(|start| near(counts[&start], 3000 / 7)), "{counts:?}");
        assert!((15..17).all(|start| near(counts[&start], 1500)) && near(counts[&21], 3000), "{counts:?}");

        // What is stored and restored goes on with the same segments.
        let mut other = Experience::new(layout(), 100, 5, false).by_episode(true);
        other.restore(&experience.store()).unwrap();
        assert_eq!(segments(&other, 100, 5), segments(&experience, 100, 5));
        // One more observation: two starts in the running episode.
        experience.observe(&[26.0], false);
        assert!(segments(&experience, 500, 5).iter().any(|segment| segment[0] == 22.0));
    }

    #[test]
    fn an_episode_that_is_partly_forgotten_is_drawn_from_what_is_left_of_it() {
        // 10 rows each; 25 are there: five of the second episode, then two whole ones.
        let experience = filled(25, 4, false, &[9, 9, 9, 9]).by_episode(true);
        let starts: std::collections::BTreeSet<u32> = segments(&experience, 3000, 4).iter().map(|s| s[0] as u32).collect();
        let wanted: Vec<u32> = [15..=16, 20..=26, 30..=36].into_iter().flatten().collect();
        assert_eq!(starts.into_iter().collect::<Vec<_>>(), wanted);
        let mut other = Experience::new(layout(), 25, 4, false).by_episode(true);
        other.restore(&experience.store()).unwrap();
        assert_eq!(other, experience);
    }

    #[test]
    fn a_discount_is_the_environments_and_one_where_nothing_follows() {
        let field = Field { input: "data.discount".into(), meaning: Meaning::Discount, start: 0, width: 1 };
        let layout = Layout { fields: vec![field], width: 1, observation: 0, action: 0 };
        let mut experience = Experience::new(layout, 10, 1, true);
        for terminal in [false, true] {
            experience.observe(&[], true);
            experience.follow(&[], &Transition::new(0.5, terminal, true));
            experience.observe(&[], false);
        }
        let mut found = vec![0.0; 4];
        experience.read(&[0], &experience.layout().fields[0], 4, &mut found);
        assert_eq!(found, [1.0, 1.0, 0.0, 1.0]);
    }

    #[test]
    fn streams_cross_episodes() {
        let experience = filled(100, 5, true, &[3, 3]);
        let starts: std::collections::BTreeSet<u32> = segments(&experience, 500, 5).iter().map(|s| s[0] as u32).collect();
        assert_eq!(starts.into_iter().collect::<Vec<_>>(), [0, 1, 2, 3]);
    }

    #[test]
    fn old_rows_are_forgotten_and_never_read() {
        let experience = filled(12, 4, false, &[9, 9, 9, 5]);
        assert_eq!(experience.len(), 12);
        let first = segments(&experience, 400, 4).iter().map(|s| s[0] as u32).min();
        // 36 rows in all: 24 to 29 are the end of the third episode.
        assert_eq!(first, Some(24));
        let bytes = experience.bytes();
        assert_eq!(filled(12, 4, false, &[9; 50]).bytes(), bytes);
    }

    #[test]
    fn counts_of_segments_hold_while_rows_come_and_go() {
        for time in [1, 2, 5, 12] {
            for cross in [false, true] {
                let mut experience = Experience::new(layout(), 12, time, cross);
                for i in 0..100u64 {
                    experience.observe(&[i as f64], i % 7 == 0);
                    let first_end = experience.oldest() + time as u64 - 1;
                    let ends = (first_end..experience.total).filter(|r| experience.ends_at(*r)).count() as u64;
                    assert_eq!(experience.ends, ends, "time {time}, cross {cross}, row {i}");
                }
            }
        }
    }

    #[test]
    fn without_a_segment_there_is_an_error() {
        let error = filled(100, 8, false, &[1; 20]).sample(Stream::new("x", 0, "y", 0), 1).unwrap_err();
        assert_eq!(error.to_string(), "no episode has the 8 observations of a segment: there are 40 in all, in shorter ones");
    }

    #[test]
    fn what_is_stored_comes_back() {
        for episodes in [&[4, 3][..], &[9, 9, 9, 5]] {
            let experience = filled(12, 4, false, episodes);
            let mut other = Experience::new(layout(), 12, 4, false);
            other.restore(&experience.store()).unwrap();
            assert_eq!(other, experience);
            assert!(Experience::new(layout(), 5, 4, false).restore(&experience.store()).is_err());
        }
    }

    #[test]
    fn a_rollout_goes_on_from_its_last_row() {
        let mut experience = filled(20, 1, true, &[4]);
        experience.observe(&[7.0], true);
        experience.forget(5);
        assert_eq!((experience.len(), experience.rows[0], experience.rows[3]), (1, 7.0, 1.0));
        let mut other = Experience::new(layout(), 20, 1, true);
        other.restore(&experience.store()).unwrap();
        assert_eq!(other, experience);
    }
}
