//! The matrix against a slow definition, its precisions, its file form, and the recorded vectors.

use proptest::prelude::*;
use seed_envs::search_qa::retriever::corpus::Corpus;
use seed_envs::search_qa::retriever::dense::{
    Dense, Matrix, MatrixInfo, MatrixWriter, Precision, QueryEncoder,
};
use seed_envs::search_qa::retriever::{Document, Retriever};
use std::path::Path;
use std::sync::Arc;

fn write(path: &Path, rows: &[Vec<f32>], precision: Precision, fingerprint: u64) -> Matrix {
    let dims = rows.first().map_or(1, Vec::len);
    let mut writer =
        MatrixWriter::create(path, MatrixInfo::new(rows.len(), dims, precision, fingerprint, "test"))
            .expect("a file");
    rows.iter().for_each(|row| writer.push(row).expect("a good row"));
    writer.finish().expect("finished");
    Matrix::open(path).expect("opened")
}

fn slow(rows: &[Vec<f32>], query: &[f32], top_k: usize) -> Vec<(usize, f64)> {
    let dot = |row: &Vec<f32>| row.iter().zip(query).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>();
    let mut scored: Vec<(usize, f64)> = rows.iter().map(dot).enumerate().collect();
    scored.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    scored.truncate(top_k);
    scored
}

fn vectors(count: usize, dims: usize) -> impl Strategy<Value = Vec<Vec<f32>>> {
    proptest::collection::vec(proptest::collection::vec(-1.0_f32..1.0, dims), 1..count)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn the_best_rows_are_found_in_every_precision(
        (rows, queries) in (1_usize..70).prop_flat_map(|dims| (vectors(60, dims), vectors(4, dims))),
        top_k in 1_usize..8,
    ) {
        let folder = tempfile::tempdir().expect("a folder");
        let dims = rows[0].len() as f64;
        for (precision, step) in [(Precision::F32, 1e-6), (Precision::F16, 1e-3), (Precision::Int8, 1.0 / 250.0)] {
            let matrix = write(&folder.path().join("m"), &rows, precision, 0);
            let found = matrix.search(&queries, top_k);
            for (query, found) in queries.iter().zip(&found) {
                let expected = slow(&rows, query, top_k);
                prop_assert_eq!(found.len(), expected.len());
                // Place by place the score is right up to what the precision loses, whichever row has it.
                for ((row, score), (_, best)) in found.iter().zip(&expected) {
                    let exact = slow(&rows[*row..=*row], query, 1)[0].1;
                    prop_assert!((f64::from(*score) - exact).abs() <= step * dims, "{} for {}", score, exact);
                    prop_assert!((f64::from(*score) - best).abs() <= 2.0 * step * dims);
                }
                prop_assert!(found.is_sorted_by(|a, b| a.1 > b.1 || a.1 == b.1 && a.0 < b.0));
            }
            // A batch gives what its queries give alone, bit for bit.
            let alone: Vec<_> =
                queries.iter().map(|query| matrix.search(std::slice::from_ref(query), top_k).remove(0)).collect();
            prop_assert_eq!(alone, found);
        }
    }
}

#[test]
fn ties_go_to_the_earlier_row_over_many_pieces_of_work() {
    let folder = tempfile::tempdir().expect("a folder");
    // 32 MB: several pieces.
    let rows: Vec<Vec<f32>> = (0..8192).map(|at| vec![f32::from(u8::from(at % 1000 == 7)); 1024]).collect();
    let matrix = write(&folder.path().join("m"), &rows, Precision::F32, 0);
    let found = matrix.search(&[vec![1.0; 1024]], 10).remove(0);
    let places: Vec<usize> = found.iter().map(|hit| hit.0).collect();
    assert_eq!(places, [7, 1007, 2007, 3007, 4007, 5007, 6007, 7007, 8007, 0]);
    assert_eq!(found[0].1, 1024.0);
}

#[test]
fn files_that_are_none_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("m");
    write(&path, &[vec![1.0, 2.0]], Precision::F16, 0);
    let bytes = std::fs::read(&path).expect("bytes");
    let refused = |bytes: &[u8]| {
        std::fs::write(&path, bytes).expect("written");
        Matrix::open(&path).expect_err("refused").to_string()
    };
    assert!(refused(&bytes[..bytes.len() - 1]).contains("cut or damaged"));
    assert!(refused(&[bytes.as_slice(), b"x"].concat()).contains("cut or damaged"));
    assert!(refused(b"").contains("SEEDVECS"));
    assert!(refused(&bytes[..20]).contains("a whole header"));
    let text = String::from_utf8_lossy(&bytes[..16 + 40]).into_owned();
    assert!(text.contains("\"version\":1"), "{text}");
    let at = text.find("\"version\":1").expect("there") + 10;
    let mut newer = bytes.clone();
    newer[at] = b'7';
    assert!(refused(&newer).contains("build the matrix anew"));

    let info = || MatrixInfo::new(2, 2, Precision::F16, 0, "test");
    let mut writer = MatrixWriter::create(&path, info()).expect("a file");
    assert!(writer.push(&[1.0]).expect_err("short").to_string().contains("1 numbers"));
    assert!(writer.push(&[0.0, f32::NAN]).expect_err("no number").to_string().contains("row 0 number 1"));
    assert!(writer.push(&[7e4, 0.0]).expect_err("too large").to_string().contains("70000"));
    writer.push(&[0.0, 1.0]).expect("a row");
    assert!(writer.finish().expect_err("too few").to_string().contains("1 rows"));
    assert_eq!(
        std::fs::read_dir(folder.path()).expect("a folder").count(),
        1,
        "no file is left half-written"
    );
}

/// Points for words.
struct Table;

impl QueryEncoder for Table {
    fn dims(&self) -> usize {
        2
    }

    fn encode(&self, queries: &[String]) -> Result<Vec<Vec<f32>>, String> {
        let one = |query: &String| match query.as_str() {
            "east" => Ok(vec![1.0, 0.0]),
            "north" => Ok(vec![0.0, 1.0]),
            other => Err(format!("no place is called {other}")),
        };
        queries.iter().map(one).collect()
    }
}

#[test]
fn passages_are_found_by_vectors() {
    let folder = tempfile::tempdir().expect("a folder");
    let document =
        |id: &str| Document { id: id.to_owned(), contents: format!("{id}\ntext"), other: Default::default() };
    let corpus = Arc::new(Corpus::from_documents(&[document("a"), document("b"), document("c")]));
    let rows = [vec![1.0, 0.1], vec![0.2, 0.9], vec![-1.0, 0.0]];
    let matrix = Arc::new(write(&folder.path().join("m"), &rows, Precision::Int8, corpus.fingerprint()));
    let dense = Dense::new(corpus.clone(), matrix.clone(), Arc::new(Table)).expect("they fit");
    let ids = |query: &str| -> Vec<String> {
        dense.search(query, 2, 0).expect("found")[0].iter().map(|hit| hit.document.id.clone()).collect()
    };
    assert_eq!(ids("east"), ["a", "b"]);
    assert_eq!(ids("north"), ["b", "a"]);
    assert!(dense.search("west", 2, 0).expect_err("unknown").to_string().contains("called west"));
    let batch = dense.search_batch(&["north".into(), "east".into()], 1);
    assert_eq!(batch[1].as_ref().expect("found")[0][0].document.id, "a");

    let other = Arc::new(Corpus::from_documents(&[document("a"), document("b"), document("x")]));
    let error = Dense::new(other, matrix, Arc::new(Table)).err().expect("another corpus").to_string();
    assert!(error.contains("another corpus"), "{error}");
}
