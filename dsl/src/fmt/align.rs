//! Columns: neighbouring statements of one family put their `=`, `->`, weights and clauses below each other.
//!
//! A statement takes part with its first line; one that goes on below does not end the table, nor does a comment. A
//! blank line, another family or a second statement on the line does.

use super::lead::Column;
use super::outline::{Entry, Frame, Outline, Role, Unit};

/// The most spaces that a column may cost a line; that a column of arrows, of bodies may.
pub(super) const MAX_PADDING: usize = 48;
const MAX_ARROW_PADDING: usize = 16;
const MAX_BODY_PADDING: usize = 8;
/// Spaces before the first clause of a statement, and before the others.
const CLAUSE_GAP: usize = 3;
const NEXT_CLAUSE_GAP: usize = 2;

pub(super) fn align(outline: &mut Outline<'_>) {
    let ends = ends(&outline.units);
    let mut gaps = Vec::new();
    for frame in outline.frames.iter().filter(|f| f.hanging) {
        let mut table = Table { outline, ends: &ends, rows: Vec::new() };
        for (at, entry) in frame.entries.iter().enumerate() {
            let fits = is_row(outline, frame, at);
            let family = table.rows.last().map(|row| row.entry.lead.family);
            if !fits || outline.units[entry.first].parted || family != Some(entry.lead.family) {
                table.columns(&mut gaps);
                table.rows.clear();
            }
            if fits {
                table.rows.push(Row { entry, shift: 0 });
            }
        }
        table.columns(&mut gaps);
    }
    for (at, gap) in gaps {
        outline.units[at].gap = gap;
    }
}

/// The widths to which the lines of one column are padded. Lines that lie further apart than `most` get columns of
/// their own: from the shortest on, each takes all that are within reach of it.
pub(super) fn common_widths(widths: &[usize], most: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..widths.len()).collect();
    order.sort_unstable_by_key(|&line| widths[line]);
    let mut common = widths.to_vec();
    let mut rest = order.as_slice();
    while let Some(&shortest) = rest.first() {
        let (column, further) = rest.split_at(rest.partition_point(|&line| widths[line] - widths[shortest] <= most));
        let width = column.last().map_or(0, |&line| widths[line]);
        column.iter().for_each(|&line| common[line] = width);
        rest = further;
    }
    common
}

/// For every unit, the width of all code up to its end, as if on one line.
fn ends(units: &[Unit<'_>]) -> Vec<usize> {
    let mut end = 0;
    let add = |unit: &Unit<'_>| {
        end += unit.width + if unit.breaks { 0 } else { unit.gap };
        end
    };
    units.iter().map(add).collect()
}

/// A statement or item that starts its line and has it for itself.
fn is_row(outline: &Outline<'_>, frame: &Frame, at: usize) -> bool {
    let units = &outline.units;
    let entry = &frame.entries[at];
    let crowded = frame.entries.get(at + 1).is_some_and(|next| !units[next.first].breaks);
    // Bodies form a column only where each is on one line.
    let tall = entry.lead.columns.contains(&Column::Body)
        && entry.body.is_some_and(|brace| match units[brace].role {
            Role::Open(body) => outline.frames[body].close.is_none_or(|close| units[close].line != units[entry.first].line),
            _ => true,
        });
    units[entry.first].breaks && !crowded && !tall
}

struct Row<'a> {
    entry: &'a Entry,
    /// How far the columns so far have moved its code to the right.
    shift: usize,
}

struct Table<'a> {
    outline: &'a Outline<'a>,
    ends: &'a [usize],
    rows: Vec<Row<'a>>,
}

impl Table<'_> {
    fn columns(&mut self, gaps: &mut Vec<(usize, usize)>) {
        let Some(lead) = self.rows.first().map(|row| row.entry.lead) else {
            return;
        };
        for &column in lead.columns {
            match column {
                // `dim Q = 8, C = 32`: a list, not a table.
                Column::Define if lead.family == "size" && self.rows.iter().any(|row| row.entry.defines != 1) => {}
                Column::Clause => self.clauses(gaps),
                _ => {
                    let rows = (0..self.rows.len()).collect::<Vec<_>>();
                    self.column(&rows, column, 1, gaps);
                }
            }
        }
    }

    fn clauses(&mut self, gaps: &mut Vec<(usize, usize)>) {
        for row in &self.rows {
            gaps.extend(row.entry.clauses.iter().skip(1).map(|&clause| (clause, NEXT_CLAUSE_GAP)));
        }
        let rows: Vec<usize> = (0..self.rows.len()).filter(|&row| self.place(row, Column::Clause).is_some()).collect();
        self.column(&rows, Column::Clause, CLAUSE_GAP, gaps);
    }

    fn column(&mut self, rows: &[usize], column: Column, gap: usize, gaps: &mut Vec<(usize, usize)>) {
        let places: Vec<(usize, usize, bool)> = rows
            .iter()
            .filter_map(|&row| {
                let own = self.place(row, column);
                // A loss without `warmup` still has a weight that the `warmup` of others must clear.
                let or = || {
                    if column == Column::Extra {
                        self.place(row, Column::Define).or_else(|| self.place(row, Column::Body))
                    } else {
                        None
                    }
                };
                Some((row, own.or_else(or)?, own.is_some()))
            })
            .collect();
        let widths: Vec<usize> = places.iter().map(|&(row, place, _)| self.width(row, place - 1)).collect();
        let most = match column {
            Column::Arrow => MAX_ARROW_PADDING,
            Column::Body => MAX_BODY_PADDING,
            _ => MAX_PADDING,
        };
        for (&(row, place, own), (width, common)) in places.iter().zip(widths.iter().zip(common_widths(&widths, most))) {
            if own {
                let padded = common - width + gap;
                gaps.push((place, padded));
                self.rows[row].shift += padded.saturating_sub(self.outline.units[place].gap);
            }
        }
    }

    /// Where a row has this column, if on its first line.
    fn place(&self, row: usize, column: Column) -> Option<usize> {
        let units = &self.outline.units;
        let entry = self.rows[row].entry;
        let at = entry.column(column)?;
        let (first, unit) = (&units[entry.first], units.get(at)?);
        (at > entry.first && unit.line == first.line && unit.frame == first.frame).then_some(at)
    }

    /// The width of a row's code up to the end of this unit.
    fn width(&self, row: usize, unit: usize) -> usize {
        let Row { entry, shift } = &self.rows[row];
        self.outline.units[entry.first].width + self.ends[unit] - self.ends[entry.first] + shift
    }
}

#[cfg(test)]
mod tests {
    use super::common_widths;

    #[test]
    fn far_lines_have_columns_of_their_own() {
        assert_eq!(common_widths(&[], 8), []);
        assert_eq!(common_widths(&[3, 5, 4], 8), [5, 5, 5]);
        assert_eq!(common_widths(&[1, 30, 9, 33, 10], 8), [9, 33, 9, 33, 10]);
    }
}
