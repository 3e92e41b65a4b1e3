use crate::row::two_turns;
use seed_envs::{Image, Outcome, Trajectory, TrajectoryStep};
use seed_rollout::collect::{Ending, Episode};
use seed_rollout::record::{Header, Reader, RecordError, Writer};
use seed_rollout::row::Layout;
use seed_rollout::sampler::Sampling;
use std::error::Error;
use std::path::Path;

fn header() -> Header {
    Header::new("household", Layout::Transcript, Sampling::at(0.7), 23, 5, 12)
}

fn episode(number: usize) -> Episode {
    let row = two_turns();
    let step = |action: &str, reward| TrajectoryStep {
        observation: "You see a \"cup\".\nIt is – wet.".into(),
        admissible: vec!["take cup".into(), "wait".into()],
        response: format!("<action>{action}</action>"),
        action: action.into(),
        action_valid: Some(true),
        reward,
        image: None,
    };
    Episode {
        group: 2,
        episode: number,
        ending: Ending::Done,
        history_dropped: 0,
        dead_end: (number % 2 == 1).then_some(true),
        trajectory: Trajectory {
            environment: "household".into(),
            task: row.task.clone(),
            task_description: "tidy up".into(),
            seed: u64::MAX,
            steps: vec![step("take cup", 0.0), step("wait", 10.0)],
            final_observation: "Done.".into(),
            outcome: Outcome { won: true, score: 1.0, truncated: false },
        },
        frames: vec![Image { width: 2, height: 1, rgb: vec![1, 2, 3, 250, 251, number as u8] }.into()],
        rows: vec![row],
    }
}

fn write(path: &Path, episodes: usize) {
    let mut writer = Writer::create(path, &header()).unwrap();
    (0..episodes).for_each(|number| writer.write(&episode(number)).unwrap());
    assert!(!path.exists(), "the final name must not be there before the file is whole");
    assert_eq!(writer.finish().unwrap(), path);
}

#[test]
fn what_is_written_is_read_back() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["new/folder/plain.jsonl", "packed.jsonl.zst"] {
        let path = folder.path().join(name);
        write(&path, 5);
        let reader = Reader::open(&path).unwrap();
        assert_eq!(reader.header(), &header());
        let episodes: Vec<Episode> = reader.map(Result::unwrap).collect();
        assert_eq!(episodes, (0..5).map(episode).collect::<Vec<_>>(), "{name}");
    }
    let plain = std::fs::metadata(folder.path().join("new/folder/plain.jsonl")).unwrap().len();
    let packed = std::fs::metadata(folder.path().join("packed.jsonl.zst")).unwrap().len();
    assert!(packed * 2 < plain, "{packed} of {plain} bytes");
}

#[test]
fn a_bad_row_is_named_and_the_next_line_is_still_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.jsonl");
    write(&path, 4);
    let text = std::fs::read_to_string(&path).unwrap();
    let mut lines: Vec<String> = text.lines().map(String::from).collect();
    lines[1] = lines[1].replace(r#""response_mask":"110001""#, r#""response_mask":"110011""#);
    lines[2] = lines[2].replace("[10,11,20", "[10,23,20");
    lines[3].truncate(100);
    std::fs::write(&path, lines.join("\n")).unwrap();
    let results: Vec<_> = Reader::open(&path).unwrap().collect();
    let messages: Vec<String> = results
        .iter()
        .map(|result| match result {
            Ok(episode) => format!("episode {}", episode.episode),
            Err(error) => {
                let cause = error.source().map(ToString::to_string).unwrap_or_default();
                format!("{error}: {cause}").replace(&folder.path().display().to_string(), "")
            }
        })
        .collect();
    assert_eq!(messages[0], "/rows.jsonl:2: row 0: `response_mask` disagrees with `turns` at token 4");
    assert_eq!(messages[1], "/rows.jsonl:3: row 0: token 4 of the row is id 23; the vocabulary has 23");
    assert!(messages[2].starts_with("/rows.jsonl:4: not a recorded episode: EOF"), "{}", messages[2]);
    assert_eq!(messages[3], "episode 3");
    assert_eq!(messages.len(), 4);
}

#[test]
fn foreign_and_newer_files_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let open = |text: &str| {
        let path = folder.path().join("file.jsonl");
        std::fs::write(&path, text).unwrap();
        Reader::open(&path).err().unwrap()
    };
    assert!(matches!(open("{\"a\": 1}\n"), RecordError::Format { .. }));
    assert!(matches!(open(""), RecordError::Format { .. }));
    let newer = serde_json::to_string(&header()).unwrap().replace("\"version\":1", "\"version\":2");
    assert!(matches!(open(&newer), RecordError::Version { found: 2, .. }));
    assert!(matches!(Reader::open(folder.path().join("none.jsonl")), Err(RecordError::Io { .. })));
}

#[test]
fn a_cut_file_gives_its_whole_episodes_and_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.jsonl.zst");
    // episodes differ, so that the packed file has some length
    let mut writer = Writer::create(&path, &header()).unwrap();
    for number in 0..2000 {
        let mut episode = episode(number);
        episode.trajectory.final_observation = format!("{:x}", (number as u128 + 1).pow(9));
        writer.write(&episode).unwrap();
    }
    writer.finish().unwrap();
    let bytes = std::fs::read(&path).unwrap();
    std::fs::write(&path, &bytes[..bytes.len() * 3 / 4]).unwrap();
    let results: Vec<_> = Reader::open(&path).unwrap().collect();
    let (last, whole) = results.split_last().unwrap();
    assert!(matches!(last, Err(RecordError::CutShort { .. })), "{last:?}");
    assert!(!whole.is_empty() && whole.iter().all(Result::is_ok), "{}", whole.len());
}

#[test]
fn a_writer_refuses_rows_that_a_reader_would() {
    let folder = tempfile::tempdir().unwrap();
    let mut writer = Writer::create(folder.path().join("rows.jsonl"), &header()).unwrap();
    let mut episode = episode(0);
    episode.rows[0].logp[0] = f32::NAN;
    assert!(matches!(writer.write(&episode), Err(RecordError::Row { line: 2, row: 0, .. })));
}
