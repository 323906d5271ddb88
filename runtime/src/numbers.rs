//! JSON for numbers that may be NaN or infinite, as `#[serde(with = "numbers")]`.
//!
//! JSON has no such numbers: they are the texts `"NaN"`, `"inf"` and `"-inf"`. A `null`, which older versions wrote, is read as NaN.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{self, Deserializer, Visitor};
use serde::ser::Serializer;
use serde::{Deserialize, Serialize};

/// A number, or a collection of them.
pub trait Numbers: Sized {
    fn write<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error>;
    fn read<'d, D: Deserializer<'d>>(from: D) -> Result<Self, D::Error>;
}

pub fn serialize<T: Numbers, S: Serializer>(numbers: &T, to: S) -> Result<S::Ok, S::Error> {
    numbers.write(to)
}

pub fn deserialize<'d, T: Numbers, D: Deserializer<'d>>(from: D) -> Result<T, D::Error> {
    T::read(from)
}

/// A number inside `serde_json::json!`.
pub fn value(number: f64) -> serde_json::Value {
    if number.is_finite() { number.into() } else { text(number).into() }
}

fn text(number: f64) -> &'static str {
    match number {
        x if x == f64::INFINITY => "inf",
        x if x == f64::NEG_INFINITY => "-inf",
        _ => "NaN",
    }
}

struct Written<T>(T);

impl<T: Numbers> Serialize for Written<&T> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.0.write(to)
    }
}

impl<'d, T: Numbers> Deserialize<'d> for Written<T> {
    fn deserialize<D: Deserializer<'d>>(from: D) -> Result<Self, D::Error> {
        T::read(from).map(Written)
    }
}

struct Number;

impl Visitor<'_> for Number {
    type Value = f64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number, \"NaN\", \"inf\" or \"-inf\"")
    }

    fn visit_f64<E>(self, x: f64) -> Result<f64, E> {
        Ok(x)
    }

    fn visit_u64<E>(self, x: u64) -> Result<f64, E> {
        Ok(x as f64)
    }

    fn visit_i64<E>(self, x: i64) -> Result<f64, E> {
        Ok(x as f64)
    }

    fn visit_unit<E>(self) -> Result<f64, E> {
        Ok(f64::NAN)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<f64, E> {
        match text {
            "NaN" => Ok(f64::NAN),
            "inf" => Ok(f64::INFINITY),
            "-inf" => Ok(f64::NEG_INFINITY),
            other => Err(E::invalid_value(de::Unexpected::Str(other), &self)),
        }
    }
}

impl Numbers for f64 {
    fn write<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        if self.is_finite() { to.serialize_f64(*self) } else { to.serialize_str(text(*self)) }
    }

    fn read<'d, D: Deserializer<'d>>(from: D) -> Result<f64, D::Error> {
        from.deserialize_any(Number)
    }
}

impl Numbers for f32 {
    fn write<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        if self.is_finite() { to.serialize_f32(*self) } else { to.serialize_str(text(f64::from(*self))) }
    }

    fn read<'d, D: Deserializer<'d>>(from: D) -> Result<f32, D::Error> {
        from.deserialize_any(Number).map(|x| x as f32)
    }
}

impl<T: Numbers> Numbers for Vec<T> {
    fn write<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(self.iter().map(Written))
    }

    fn read<'d, D: Deserializer<'d>>(from: D) -> Result<Vec<T>, D::Error> {
        Ok(Vec::<Written<T>>::deserialize(from)?.into_iter().map(|x| x.0).collect())
    }
}

/// `null` is None here.
impl Numbers for Option<f64> {
    fn write<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.as_ref().map(Written).serialize(to)
    }

    fn read<'d, D: Deserializer<'d>>(from: D) -> Result<Option<f64>, D::Error> {
        Ok(Option::<Written<f64>>::deserialize(from)?.map(|x| x.0))
    }
}

impl<T: Numbers> Numbers for (String, T) {
    fn write<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        (&self.0, Written(&self.1)).serialize(to)
    }

    fn read<'d, D: Deserializer<'d>>(from: D) -> Result<(String, T), D::Error> {
        <(String, Written<T>)>::deserialize(from).map(|(name, x)| (name, x.0))
    }
}

impl<T: Numbers> Numbers for BTreeMap<String, T> {
    fn write<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_map(self.iter().map(|(name, x)| (name, Written(x))))
    }

    fn read<'d, D: Deserializer<'d>>(from: D) -> Result<Self, D::Error> {
        Ok(BTreeMap::<String, Written<T>>::deserialize(from)?.into_iter().map(|(name, x)| (name, x.0)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Serialize, Deserialize)]
    struct Some {
        #[serde(with = "super")]
        one: f64,
        #[serde(with = "super")]
        more: Vec<(String, Vec<f32>)>,
    }

    #[test]
    fn numbers_that_are_not_finite_come_back() {
        let some = Some { one: f64::NEG_INFINITY, more: vec![("a".into(), vec![0.1, f32::NAN, f32::INFINITY, 3.0])] };
        let text = serde_json::to_string(&some).unwrap();
        assert_eq!(text, r#"{"one":"-inf","more":[["a",[0.1,"NaN","inf",3.0]]]}"#);
        let back: Some = serde_json::from_str(&text).unwrap();
        assert_eq!(back.one, f64::NEG_INFINITY);
        assert_eq!(serde_json::to_string(&back).unwrap(), text);
        // What older versions wrote.
        let old: Some = serde_json::from_str(r#"{"one":null,"more":[["a",[null,2]]]}"#).unwrap();
        assert!(old.one.is_nan() && old.more[0].1[0].is_nan() && old.more[0].1[1] == 2.0);
        assert!(serde_json::from_str::<Some>(r#"{"one":"many","more":[]}"#).is_err());
    }
}
