//! Question files as they are published: parquet and JSON lines, in the layouts of Search-R1 and verl-agent.
//!
//! | what | looked for in this order |
//! |---|---|
//! | question | `env_kwargs.question`, `extra_info.question`, `question` |
//! | answers | `env_kwargs.ground_truth.target`, `reward_model.ground_truth.target`, `golden_answers` |
//! | source | `env_kwargs.data_source`, `data_source`, the source that the caller names |
//!
//! A single text is one answer. Plain rows (`question`, `golden_answers`) get a question mark where they have none, as
//! the published preprocessing does. Both layouts may come in either kind of file.

use super::retriever::corpus::kind;
use super::suite::Question;
use crate::environment::EnvError;
use crate::projection::trim;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::{Field, Row};
use serde_json::{Map, Value};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

const QUESTION: [&str; 3] = ["env_kwargs.question", "extra_info.question", "question"];
const ANSWERS: [&str; 3] =
    ["env_kwargs.ground_truth.target", "reward_model.ground_truth.target", "golden_answers"];
const SOURCE: [&str; 2] = ["env_kwargs.data_source", "data_source"];

/// Reads the questions of a file; its name ends in `.parquet` or `.jsonl`.
///
/// `source` stands in where rows do not say where they come from.
///
/// # Errors
/// [`EnvError`] with file, row (counted from 1; the line in JSON lines) and column of the first thing that is wrong.
pub fn read(path: &Path, source: Option<&str>) -> Result<Vec<Question>, EnvError> {
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("parquet") => read_parquet(path, source),
        Some("jsonl") => read_lines(path, source),
        _ => Err(EnvError::Data {
            path: path.to_owned(),
            place: String::new(),
            found: "another kind of file".to_owned(),
            expected: "a name that ends in .parquet or .jsonl".to_owned(),
        }),
    }
}

/// Reads the splits of a folder: `train` and `test`, each `.parquet` or `.jsonl`; what is not there is left out.
///
/// # Errors
/// As [`read`]; and when there is none of the files, or one split in both kinds.
pub fn read_folder(folder: &Path) -> Result<Vec<(String, Vec<Question>)>, EnvError> {
    let wrong = |found: String, expected: &str| EnvError::Data {
        path: folder.to_owned(),
        place: String::new(),
        found,
        expected: expected.to_owned(),
    };
    let mut splits = Vec::new();
    for split in ["train", "test"] {
        let files = ["parquet", "jsonl"].map(|kind| folder.join(format!("{split}.{kind}")));
        match [files[0].is_file(), files[1].is_file()] {
            [true, true] => {
                let found = format!("{split}.parquet and {split}.jsonl");
                return Err(wrong(found, "one of the two"));
            }
            [false, false] => {}
            [parquet, _] => splits.push((split.to_owned(), read(&files[usize::from(!parquet)], None)?)),
        }
    }
    if splits.is_empty() {
        let expected = "train.parquet, train.jsonl, test.parquet or test.jsonl";
        return Err(wrong("none of the question files".to_owned(), expected));
    }
    Ok(splits)
}

/// Column and problem of a row.
type Fault = (String, String, String);

fn read_parquet(path: &Path, source: Option<&str>) -> Result<Vec<Question>, EnvError> {
    let failed = |place: String, problem: String| EnvError::Data {
        path: path.to_owned(),
        place,
        found: problem,
        expected: "a whole parquet file (compression: none, snappy or zstd)".to_owned(),
    };
    let file = File::open(path).map_err(|source| EnvError::Read { path: path.to_owned(), source })?;
    let reader = SerializedFileReader::new(file).map_err(|error| failed(String::new(), error.to_string()))?;
    let rows = reader.get_row_iter(None).map_err(|error| failed(String::new(), error.to_string()))?;
    let mut questions = Vec::new();
    for (number, row) in rows.enumerate() {
        let row = row.map_err(|error| failed(format!(" row {}", number + 1), error.to_string()))?;
        questions.push(question(&object(&row), source).map_err(|(column, found, expected)| {
            EnvError::Data {
                path: path.to_owned(),
                place: format!(" row {} column `{column}`", number + 1),
                found,
                expected,
            }
        })?);
    }
    Ok(questions)
}

fn read_lines(path: &Path, source: Option<&str>) -> Result<Vec<Question>, EnvError> {
    let failed = |source| EnvError::Read { path: path.to_owned(), source };
    let file = BufReader::new(File::open(path).map_err(failed)?);
    let mut questions = Vec::new();
    for (number, line) in file.lines().enumerate() {
        let line = line.map_err(failed)?;
        if line.trim().is_empty() {
            continue;
        }
        let wrong = |place: &str, found: String, expected: String| EnvError::Data {
            path: path.to_owned(),
            place: format!(":{}{place}", number + 1),
            found,
            expected,
        };
        let row: Map<String, Value> = serde_json::from_str(&line)
            .map_err(|error| wrong("", error.to_string(), "a JSON object on one line".to_owned()))?;
        let read = question(&row, source);
        questions.push(
            read.map_err(|(column, found, expected)| wrong(&format!(" column `{column}`"), found, expected))?,
        );
    }
    Ok(questions)
}

/// A value by its path.
fn get<'a>(row: &'a Map<String, Value>, path: &str) -> Option<&'a Value> {
    let mut parts = path.split('.');
    let first = row.get(parts.next()?)?;
    parts.try_fold(first, |value, part| value.get(part)).filter(|value| !value.is_null())
}

/// The first of the columns that is there.
fn first<'a, 'b>(row: &'a Map<String, Value>, columns: &[&'b str]) -> Option<(&'b str, &'a Value)> {
    columns.iter().find_map(|column| Some((*column, get(row, column)?)))
}

fn question(row: &Map<String, Value>, source: Option<&str>) -> Result<Question, Fault> {
    let missing = |columns: &[&str]| {
        (
            columns[columns.len() - 1].to_owned(),
            "nothing".to_owned(),
            format!("one of {}", columns.join(", ")),
        )
    };
    let wrong = |column: &str, value: &Value, expected: &str| {
        (column.to_owned(), kind(value).to_owned(), expected.to_owned())
    };
    let text = |columns: &[&str]| match first(row, columns) {
        Some((column, Value::String(text))) => Ok(Some((column.to_owned(), text.clone()))),
        Some((column, other)) => Err(wrong(column, other, "a text")),
        None => Ok(None),
    };
    let (column, mut question) = text(&QUESTION)?.ok_or_else(|| missing(&QUESTION))?;
    let plain = column == "question";
    if plain {
        question = trim(&question).to_owned();
    }
    if trim(&question).is_empty() {
        return Err((column, "an empty text".to_owned(), "a question".to_owned()));
    }
    if plain && !question.ends_with('?') {
        question.push('?');
    }
    let (column, answers) = first(row, &ANSWERS).ok_or_else(|| missing(&ANSWERS))?;
    let golden_answers = match answers {
        Value::String(text) => vec![text.clone()],
        Value::Array(items) if !items.is_empty() => {
            let item = |item: &Value| match item {
                Value::String(text) => Ok(text.clone()),
                other => Err(wrong(column, other, "texts")),
            };
            items.iter().map(item).collect::<Result<_, _>>()?
        }
        Value::Array(_) => {
            return Err((column.to_owned(), "an empty list".to_owned(), "at least one answer".to_owned()));
        }
        other => return Err(wrong(column, other, "a list of texts")),
    };
    let data_source = match (text(&SOURCE)?, source) {
        (Some((_, text)), _) => text,
        (None, Some(source)) => source.to_owned(),
        (None, None) => return Err(missing(&SOURCE)),
    };
    Ok(Question { question, golden_answers, data_source, plan: Vec::new() })
}

/// A parquet row as JSON.
fn object(row: &Row) -> Map<String, Value> {
    row.get_column_iter().map(|(name, field)| (name.clone(), value(field))).collect()
}

fn value(field: &Field) -> Value {
    match field {
        Field::Null => Value::Null,
        Field::Bool(flag) => Value::from(*flag),
        Field::Byte(number) => Value::from(*number),
        Field::Short(number) => Value::from(*number),
        Field::Int(number) => Value::from(*number),
        Field::Long(number) => Value::from(*number),
        Field::UByte(number) => Value::from(*number),
        Field::UShort(number) => Value::from(*number),
        Field::UInt(number) => Value::from(*number),
        Field::ULong(number) => Value::from(*number),
        Field::Float(number) => Value::from(*number),
        Field::Double(number) => Value::from(*number),
        Field::Str(text) => Value::from(text.as_str()),
        Field::Bytes(bytes) => Value::from(String::from_utf8_lossy(bytes.data()).into_owned()),
        Field::Group(row) => Value::Object(object(row)),
        Field::ListInternal(list) => list.elements().iter().map(value).collect(),
        Field::MapInternal(map) => {
            let entry = |(key, field): &(Field, Field)| (key.to_string(), value(field));
            Value::Object(map.entries().iter().map(entry).collect())
        }
        // Dates and decimals: nothing that a question is made of.
        other => Value::from(other.to_string()),
    }
}
