//! Columns that line up. Written by hand: two spaces and a width are all that is needed.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Align {
    Left,
    Right,
}

/// Rows with their columns aligned, each line indented by two spaces. Columns without any text are left out.
pub(crate) fn table(align: &[Align], rows: &[Vec<String>]) -> String {
    let width = |text: &str| text.chars().count();
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let widths: Vec<usize> =
        (0..columns).map(|c| rows.iter().filter_map(|row| row.get(c)).map(|cell| width(cell)).max().unwrap_or(0)).collect();
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (c, cell) in row.iter().enumerate().filter(|(c, _)| widths[*c] > 0) {
            let pad = " ".repeat(widths[c] - width(cell));
            line.push_str("  ");
            match align.get(c) {
                Some(Align::Right) => line += &(pad + cell),
                _ => line += &(cell.clone() + &pad),
            }
        }
        text += line.trim_end();
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let rows = vec![
            vec!["name".to_string(), "count".into(), String::new(), "end".into()],
            vec!["ä".to_string(), "7".into(), String::new(), String::new()],
        ];
        assert_eq!(table(&[Align::Left, Align::Right], &rows), "  name  count  end\n  ä         7\n");
        assert_eq!(table(&[], &[]), "");
    }
}
