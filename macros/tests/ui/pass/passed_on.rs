//! Tokens that a `macro_rules!` passes on keep their meaning.

macro_rules! scaled {
    ($name:ident, $size:expr, $weight:expr) => {
        wmc_macros::world_model! {
            use_from = "models";
            use tiny::Tiny
            model $name extends Tiny {
                dim Q = $size
                loss dyn 2 * $weight = sq(y[t] - sg(z[t+1].q))
            }
        }
    };
}

scaled!(TwoSized, 16, 1 + 2);

fn main() {
    assert_eq!(two_sized::dims::Q, 16);
    let text: String = two_sized::SOURCE.split_whitespace().collect();
    assert!(text.contains("lossdyn2*(1+2)=sq("), "{text}");
}
