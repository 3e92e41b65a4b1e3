//! Metrics and event files, atomic writes, generated pages.

use seed_trainer::metrics::*;
use seed_trainer::run_folder::*;
use std::fs;
use std::path::Path;

/// Compares the generated part of a page with what the code says; `UPDATE_EXPECT=1` rewrites it.
#[track_caller]
pub(crate) fn generated_part(page: &Path, name: &str, expected: &str) {
    let text = fs::read_to_string(page).unwrap_or_else(|e| panic!("{}: {e}", page.display()));
    let (open, close) = (format!("<!-- generated: {name} -->\n"), format!("<!-- end: {name} -->"));
    let start = text.find(&open).unwrap_or_else(|| panic!("{} has no `{open}`", page.display())) + open.len();
    let end = start + text[start..].find(&close).expect("the part is closed");
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        fs::write(page, format!("{}{expected}{}", &text[..start], &text[end..])).unwrap();
        return;
    }
    assert!(
        text[start..end] == *expected,
        "{}: part `{name}` is out of date; UPDATE_EXPECT=1 rewrites it",
        page.display()
    );
}

#[test]
fn the_metrics_page_is_up_to_date() {
    let page = crate::policy::workspace().join("docs/metrics.md");
    generated_part(&page, "metrics", &seed_trainer::reference::metrics());
}

fn record(pairs: &[(&str, f64)]) -> Record {
    let mut record = Record::new();
    for (name, value) in pairs {
        record.set(*name, *value);
    }
    record
}

#[test]
fn families_match_part_by_part() {
    assert!(definition("eval/valid_seen/success").is_some());
    assert!(definition("eval/valid_seen/success/look_at").is_some());
    assert!(definition("eval/valid_seen/sucess").is_none());
    assert!(definition("episode").is_none());
}

#[test]
#[should_panic(expected = "not in the registry")]
fn an_unregistered_metric_is_found() {
    Record::new().set("actor/grad_nrom", 1.0);
}

#[test]
fn jsonl_drops_torn_and_later_lines_on_resume() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("metrics.jsonl");
    {
        let mut file = JsonLines::open(&path, None).unwrap();
        for step in 1..=3 {
            file.write(step, &record(&[("actor/lr", step as f64), ("opd/loss", f64::NAN)])).unwrap();
        }
    }
    let whole = fs::read_to_string(&path).unwrap();
    assert_eq!(whole.lines().next(), Some(r#"{"step":1,"actor/lr":1.0,"opd/loss":null}"#));
    fs::write(&path, format!("{whole}{{\"step\":4,\"actor")).unwrap();
    assert_eq!(read_jsonl(&path).unwrap().len(), 3);
    JsonLines::open(&path, Some(2)).unwrap().write(3, &record(&[("actor/lr", 9.0)])).unwrap();
    let steps: Vec<_> =
        read_jsonl(&path).unwrap().iter().map(|(s, m)| (*s, m["actor/lr"].as_f64().unwrap())).collect();
    assert_eq!(steps, [(1, 1.0), (2, 2.0), (3, 9.0)]);
    fs::write(&path, "{}\n{\"step\":1}\n").unwrap();
    let message = read_jsonl(&path).unwrap_err().to_string();
    assert!(
        message.ends_with("metrics.jsonl, line 1: expected a JSON object with a whole number `step`"),
        "{message}"
    );
}

/// An independent reader: CRC-32C bit by bit, protocol buffers field by field.
mod reader {
    pub(super) fn crc(data: &[u8]) -> u32 {
        let mut crc = !0u32;
        for byte in data {
            crc ^= u32::from(*byte);
            for _ in 0..8 {
                crc = (crc >> 1) ^ (0x82f6_3b78 & (crc & 1).wrapping_neg());
            }
        }
        let crc = !crc;
        crc.rotate_right(15).wrapping_add(0xa282_ead8)
    }

    pub(super) fn records(mut bytes: &[u8]) -> Vec<Vec<u8>> {
        let mut all = vec![];
        while !bytes.is_empty() {
            let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
            assert_eq!(u32::from_le_bytes(bytes[8..12].try_into().unwrap()), crc(&bytes[..8]));
            let data = &bytes[12..12 + length];
            assert_eq!(u32::from_le_bytes(bytes[12 + length..16 + length].try_into().unwrap()), crc(data));
            all.push(data.to_vec());
            bytes = &bytes[16 + length..];
        }
        all
    }

    #[derive(Debug, PartialEq)]
    pub(super) enum Field {
        Varint(u64),
        Fixed64(f64),
        Fixed32(f32),
        Bytes(Vec<u8>),
    }

    pub(super) fn fields(mut bytes: &[u8]) -> Vec<(u64, Field)> {
        fn varint(bytes: &mut &[u8]) -> u64 {
            let (mut value, mut shift) = (0, 0);
            loop {
                let byte = bytes[0];
                *bytes = &bytes[1..];
                value |= u64::from(byte & 0x7f) << shift;
                shift += 7;
                if byte < 0x80 {
                    return value;
                }
            }
        }
        let mut all = vec![];
        while !bytes.is_empty() {
            let tag = varint(&mut bytes);
            let field = match tag & 7 {
                0 => Field::Varint(varint(&mut bytes)),
                1 => {
                    let (head, rest) = bytes.split_at(8);
                    bytes = rest;
                    Field::Fixed64(f64::from_le_bytes(head.try_into().unwrap()))
                }
                5 => {
                    let (head, rest) = bytes.split_at(4);
                    bytes = rest;
                    Field::Fixed32(f32::from_le_bytes(head.try_into().unwrap()))
                }
                2 => {
                    let length = varint(&mut bytes) as usize;
                    let (head, rest) = bytes.split_at(length);
                    bytes = rest;
                    Field::Bytes(head.to_vec())
                }
                other => panic!("wire type {other}"),
            };
            all.push((tag >> 3, field));
        }
        all
    }
}

#[test]
fn event_files_hold_what_was_written() {
    use reader::{Field, fields, records};
    let dir = tempfile::tempdir().unwrap();
    let mut writer = EventWriter::create(dir.path(), Some(299)).unwrap();
    writer.write(300, &record(&[("actor/lr", 0.5), ("opd/loss", -2.0)])).unwrap();
    let path = fs::read_dir(dir.path()).unwrap().next().unwrap().unwrap().path();
    let events: Vec<_> = records(&fs::read(path).unwrap()).iter().map(|data| fields(data)).collect();
    assert_eq!(events.len(), 3);
    assert_eq!(events[0][2], (3, Field::Bytes(b"brain.Event:2".to_vec())));
    assert_eq!(events[1][1..], [(2, Field::Varint(300)), (7, Field::Bytes(vec![8, 1]))]);
    assert!(matches!(events[2][0], (1, Field::Fixed64(time)) if time > 1.6e9));
    assert_eq!(events[2][1], (2, Field::Varint(300)));
    let (5, Field::Bytes(summary)) = &events[2][2] else { panic!("no summary") };
    let scalars: Vec<_> = fields(summary)
        .into_iter()
        .map(|(number, value)| match value {
            Field::Bytes(bytes) if number == 1 => fields(&bytes),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(scalars[0], [(1, Field::Bytes(b"actor/lr".to_vec())), (2, Field::Fixed32(0.5))]);
    assert_eq!(scalars[1], [(1, Field::Bytes(b"opd/loss".to_vec())), (2, Field::Fixed32(-2.0))]);
}

#[test]
fn a_failed_write_leaves_the_old_file_and_folder() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("step-000001");
    write_folder::<StorageError>(&folder, |at| write_file(&at.join("a"), b"old")).unwrap();
    let failed = write_folder::<StorageError>(&folder, |at| {
        write_file(&at.join("a"), b"new")?;
        Err(StorageError::write(at, std::io::ErrorKind::StorageFull.into()))
    });
    assert!(failed.unwrap_err().to_string().contains("cannot write; nothing older was replaced"));
    assert_eq!(fs::read(folder.join("a")).unwrap(), b"old");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "nothing half-written is left");
    write_folder::<StorageError>(&folder, |at| write_file(&at.join("a"), b"new")).unwrap();
    assert_eq!(fs::read(folder.join("a")).unwrap(), b"new");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);

    // A folder cannot be replaced by a file: the rename fails, the folder stays.
    write_file(&folder, b"file").unwrap_err();
    assert_eq!(fs::read(folder.join("a")).unwrap(), b"new");
}

#[test]
fn a_run_folder_is_made_once_and_lists_whole_checkpoints() {
    use seed_trainer::config::Layers;
    let dir = tempfile::tempdir().unwrap();
    let sets = [format!("runs_dir={}", dir.path().display()), "name=one".into()];
    let resolved = Layers::new().set(sets).unwrap().resolve().unwrap();
    let run = RunFolder::create(&resolved).unwrap();
    assert!(matches!(RunFolder::create(&resolved), Err(StorageError::Exists { .. })));
    assert!(matches!(RunFolder::open(dir.path()), Err(StorageError::NotARun { .. })));
    fs::create_dir(run.checkpoint(20)).unwrap();
    fs::create_dir(run.checkpoint(3)).unwrap();
    fs::create_dir(run.path().join("checkpoints/.step-000030.partial")).unwrap();
    assert_eq!(run.checkpoints().unwrap(), [3, 20]);
    assert_eq!(run.config().unwrap(), *resolved.config());
    run.write_manifest(&Manifest::new(&resolved, "cpu", 2)).unwrap();
    let text = fs::read_to_string(run.path().join("manifest.json")).unwrap();
    assert_eq!(serde_json::from_str::<Manifest>(&text).unwrap(), Manifest::new(&resolved, "cpu", 2));
}
