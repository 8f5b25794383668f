//! The words of one line.

use tenon::ScalarType;

use crate::Outcome;

pub(crate) struct Words(Vec<String>);

fn unescaped(word: &str) -> String {
    let mut text = String::with_capacity(word.len());
    let mut rest = word.chars();
    while let Some(c) = rest.next() {
        match c {
            '\\' => text.push(match rest.next() {
                Some('n') => '\n',
                Some('t') => '\t',
                Some('0') => '\0',
                _ => '\\',
            }),
            _ => text.push(c),
        }
    }
    text
}

impl Words {
    pub(crate) fn of(line: &str) -> Words {
        Words(line.split('\t').map(unescaped).collect())
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn text(&self, word: usize) -> Outcome<&str> {
        self.0
            .get(word)
            .map(String::as_str)
            .ok_or_else(|| format!("there is no word {word}").into())
    }

    /// Returns None if the word is empty.
    pub(crate) fn given(&self, word: usize) -> Outcome<Option<&str>> {
        Ok(Some(self.text(word)?).filter(|text| !text.is_empty()))
    }

    /// Returns every `step`th word from `first` on.
    pub(crate) fn texts(&self, first: usize, step: usize) -> Outcome<Vec<&str>> {
        (first..self.len()).step_by(step).map(|word| self.text(word)).collect()
    }

    pub(crate) fn number(&self, word: usize) -> Outcome<i64> {
        Ok(self.text(word)?.parse()?)
    }

    pub(crate) fn index(&self, word: usize) -> Outcome<usize> {
        Ok(self.text(word)?.parse()?)
    }

    /// Returns None for "-".
    pub(crate) fn numbers(&self, word: usize) -> Outcome<Option<Vec<i64>>> {
        match self.text(word)? {
            "-" => Ok(None),
            text => Ok(Some(
                text.split(',')
                    .filter(|number| !number.is_empty())
                    .map(str::parse)
                    .collect::<Result<_, _>>()?,
            )),
        }
    }

    pub(crate) fn float(&self, word: usize) -> Outcome<f64> {
        Ok(f64::from_bits(u64::from_str_radix(self.text(word)?, 16)?))
    }

    pub(crate) fn bytes(&self, word: usize) -> Outcome<Vec<u8>> {
        let digits = self.text(word)?;
        Ok((0..digits.len())
            .step_by(2)
            .map(|at| u8::from_str_radix(&digits[at..at + 2], 16))
            .collect::<Result<_, _>>()?)
    }

    pub(crate) fn scalar_type(&self, word: usize) -> Outcome<ScalarType> {
        Ok(self.text(word)?.parse()?)
    }
}
