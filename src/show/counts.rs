//! Numbers of parameters, as polynomials in the sizes that a task gives.

use dsl::hir::{AxisId, Model, Size};

/// How many numbers an array over these axes has.
pub(crate) fn entries(model: &Model, axes: &[AxisId]) -> Size {
    axes.iter().fold(Size::known(1), |product, axis| product.mul(&model.axis(*axis).size))
}

/// How many parameters a model trains.
pub(crate) fn total(model: &Model) -> Size {
    model.params.iter().fold(Size::default(), |sum, param| sum.add(&entries(model, &param.axes)))
}

/// `60 parameter tensors, 486,945 parameters`.
pub(crate) fn described(model: &Model) -> String {
    let (tensors, total) = (model.params.len(), total(model));
    let plural = |one: bool| if one { "" } else { "s" };
    format!(
        "{tensors} parameter tensor{}, {} parameter{}",
        plural(tensors == 1),
        grouped(&total),
        plural(total.value() == Some(1))
    )
}

/// A size with its thousands set apart: `1,024*A + 486,945`.
pub(crate) fn grouped(size: &Size) -> String {
    group(&size.to_string())
}

/// Sets thousands apart in every whole number of a text; digits of names stay as they are.
pub(crate) fn group(text: &str) -> String {
    let mut grouped = String::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len()).max(first.len_utf8());
        let (word, after) = rest.split_at(end);
        if word.bytes().all(|b| b.is_ascii_digit()) {
            for (i, digit) in word.chars().enumerate() {
                if i > 0 && (word.len() - i).is_multiple_of(3) {
                    grouped.push(',');
                }
                grouped.push(digit);
            }
        } else {
            grouped.push_str(word);
        }
        rest = after;
    }
    grouped
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::show::sample;

    #[test]
    fn thousands() {
        assert_eq!(group("486945"), "486,945");
        assert_eq!(group("1024*A1000 + 12 - 1000000"), "1,024*A1000 + 12 - 1,000,000");
        assert_eq!(group("0"), "0");
        assert_eq!(group(""), "");
    }

    #[test]
    fn symbols_stay_until_bound() {
        let model = sample::model();
        assert_eq!(grouped(&total(&model)), "8*O + 20*A + 6,152");
        let bound = sample::checked(&[("O", 17), ("A", 6)]).models.remove(0);
        assert_eq!(described(&bound), "29 parameter tensors, 6,408 parameters");
    }
}
