//! What a formula is worth, by the rules of Python's `eval`.
//!
//! Formulas are texts of digits, `+ - * / ( )`, joined from tokens without blanks; so two numbers side by side are one
//! number, `**` is a power and `//` a floor division. Powers bind tighter than a sign before them and take a signed
//! exponent; signs may be doubled.

/// A number as Python tells it: whole or floating.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value {
    /// `int`
    Int(i128),
    /// `float`
    Float(f64),
}

impl Value {
    /// Python's `==` with a small whole number.
    pub fn is(self, number: i32) -> bool {
        match self {
            Value::Int(value) => value == i128::from(number),
            Value::Float(value) => value == f64::from(number),
        }
    }

    fn float(self) -> f64 {
        match self {
            Value::Int(value) => value as f64,
            Value::Float(value) => value,
        }
    }
}

/// Formulas beyond this length have no value here. Those of the games are at most 42 characters long.
pub const MAX_LENGTH: usize = 1000;
/// Brackets inside brackets that are read, as in CPython.
const MAX_NESTING: usize = 200;

/// The value of a formula; `None` where Python raises an error or gives something that is no real number.
///
/// Whole numbers beyond 127 bits also count as no value. With the numbers of a deal no formula that passes through such
/// a number is worth 12 or 24, so that no reward depends on it.
pub fn evaluate(formula: &str) -> Option<Value> {
    if formula.len() > MAX_LENGTH {
        return None;
    }
    let mut parser = Parser { text: formula.as_bytes(), at: 0, nesting: 0 };
    let value = parser.sum()?;
    (parser.at == formula.len()).then_some(value)
}

struct Parser<'a> {
    text: &'a [u8],
    at: usize,
    nesting: usize,
}

impl Parser<'_> {
    /// Takes an operator when it stands here as a whole: `*` is not taken from `**`.
    fn take(&mut self, operator: &str) -> bool {
        let rest = &self.text[self.at..];
        let doubled = matches!(operator, "*" | "/") && rest.get(1) == rest.first();
        let there = rest.starts_with(operator.as_bytes()) && !doubled;
        self.at += if there { operator.len() } else { 0 };
        there
    }

    fn sum(&mut self) -> Option<Value> {
        let mut value = self.product()?;
        loop {
            if self.take("+") {
                value = add(value, self.product()?)?;
            } else if self.take("-") {
                value = add(value, negative(self.product()?)?)?;
            } else {
                return Some(value);
            }
        }
    }

    fn product(&mut self) -> Option<Value> {
        let mut value = self.signed()?;
        loop {
            if self.take("*") {
                value = multiply(value, self.signed()?)?;
            } else if self.take("//") {
                value = floor_divide(value, self.signed()?)?;
            } else if self.take("/") {
                value = divide(value, self.signed()?)?;
            } else {
                return Some(value);
            }
        }
    }

    fn signed(&mut self) -> Option<Value> {
        let mut minus = false;
        loop {
            if self.take("-") {
                minus = !minus;
            } else if !self.take("+") {
                break;
            }
        }
        let value = self.power()?;
        if minus { negative(value) } else { Some(value) }
    }

    fn power(&mut self) -> Option<Value> {
        let base = self.atom()?;
        if self.take("**") { raise(base, self.signed()?) } else { Some(base) }
    }

    fn atom(&mut self) -> Option<Value> {
        if self.take("(") {
            self.nesting += 1;
            let value = (self.nesting <= MAX_NESTING).then(|| self.sum()).flatten()?;
            self.nesting -= 1;
            return self.take(")").then_some(value);
        }
        let digits = self.text[self.at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        let number = std::str::from_utf8(&self.text[self.at..self.at + digits]).ok()?;
        self.at += digits;
        // Python refuses a zero in front of other digits.
        if number.len() > 1 && number.starts_with('0') && number.bytes().any(|digit| digit != b'0') {
            return None;
        }
        number.parse().ok().map(Value::Int)
    }
}

fn negative(value: Value) -> Option<Value> {
    match value {
        Value::Int(value) => value.checked_neg().map(Value::Int),
        Value::Float(value) => Some(Value::Float(-value)),
    }
}

fn add(a: Value, b: Value) -> Option<Value> {
    match (a, b) {
        (Value::Int(a), Value::Int(b)) => a.checked_add(b).map(Value::Int),
        _ => Some(Value::Float(a.float() + b.float())),
    }
}

fn multiply(a: Value, b: Value) -> Option<Value> {
    match (a, b) {
        (Value::Int(a), Value::Int(b)) => a.checked_mul(b).map(Value::Int),
        _ => Some(Value::Float(a.float() * b.float())),
    }
}

fn divide(a: Value, b: Value) -> Option<Value> {
    let divisor = b.float();
    (divisor != 0.0).then(|| Value::Float(a.float() / divisor))
}

fn floor_divide(a: Value, b: Value) -> Option<Value> {
    if let (Value::Int(a), Value::Int(b)) = (a, b) {
        let quotient = a.checked_div(b)?;
        let rest = a.checked_rem(b)?;
        return quotient.checked_sub(i128::from(rest != 0 && (rest < 0) != (b < 0))).map(Value::Int);
    }
    let (a, b) = (a.float(), b.float());
    if b == 0.0 {
        return None;
    }
    // CPython's `float_floor_div`: by the remainder, then to the nearest whole number.
    let rest = a % b;
    let mut quotient = (a - rest) / b;
    if rest != 0.0 && (b < 0.0) != (rest < 0.0) {
        quotient -= 1.0;
    }
    let floor = quotient.floor();
    Some(Value::Float(if quotient == 0.0 {
        0f64.copysign(a / b)
    } else if quotient - floor > 0.5 {
        floor + 1.0
    } else {
        floor
    }))
}

fn raise(base: Value, exponent: Value) -> Option<Value> {
    if let (Value::Int(base), Value::Int(exponent)) = (base, exponent)
        && exponent >= 0
    {
        return match base {
            0 | 1 => Some(Value::Int(if exponent == 0 { 1 } else { base })),
            -1 => Some(Value::Int(if exponent % 2 == 0 { 1 } else { -1 })),
            _ => base.checked_pow(u32::try_from(exponent).ok()?).map(Value::Int),
        };
    }
    let (base, exponent) = (base.float(), exponent.float());
    let raises = base == 0.0 && exponent < 0.0;
    let complex = base < 0.0 && base.is_finite() && exponent.is_finite() && exponent.fract() != 0.0;
    if raises || complex {
        return None;
    }
    let value = base.powf(exponent);
    // A result beyond the range of floats raises, unless an operand was beyond it already.
    let overflow = value.is_infinite() && base.is_finite() && exponent.is_finite();
    (!overflow).then_some(Value::Float(value))
}

#[cfg(test)]
mod tests {
    use super::{Value, evaluate};

    #[test]
    fn python_says_the_same() {
        // Printed by CPython 3.11.
        for (formula, value) in [
            ("2+10", Some(Value::Int(12))),
            ("210", Some(Value::Int(210))),
            ("-2**2", Some(Value::Int(-4))),
            ("2**-1", Some(Value::Float(0.5))),
            ("2**3**2", Some(Value::Int(512))),
            ("2**+3", Some(Value::Int(8))),
            ("--+5", Some(Value::Int(5))),
            ("7//2", Some(Value::Int(3))),
            ("-7//2", Some(Value::Int(-4))),
            ("7//-2", Some(Value::Int(-4))),
            ("7/2//1", Some(Value::Float(3.0))),
            ("-7/2//1", Some(Value::Float(-4.0))),
            ("8/(3-8/3)", Some(Value::Float(23.99999999999999))),
            ("(1+2)*(3+5)", Some(Value::Int(24))),
            ("6/2*8", Some(Value::Float(24.0))),
            ("1-1//3", Some(Value::Int(1))),
            ("(0-8)**(1/3)", None),
            ("1/(5-5)", None),
            ("0**-1", None),
            ("2***3", None),
            ("2///3", None),
            ("2//*3", None),
            ("2(3)", None),
            ("()", None),
            ("(2", None),
            ("2)", None),
            ("", None),
            ("+", None),
            ("2 + 3", None),
            ("007", None),
            ("00", Some(Value::Int(0))),
            ("10**400", None),
            ("9/1**9", Some(Value::Float(9.0))),
        ] {
            assert_eq!(evaluate(formula), value, "{formula}");
        }
        assert_eq!(evaluate(&"(".repeat(500)), None);
        assert_eq!(evaluate(&format!("{}1{}", "(".repeat(150), ")".repeat(150))), Some(Value::Int(1)));
        assert!(evaluate("6/2*8").is_some_and(|value| value.is(24)));
        assert!(evaluate("8/(3-8/3)").is_some_and(|value| !value.is(24)));
    }
}
