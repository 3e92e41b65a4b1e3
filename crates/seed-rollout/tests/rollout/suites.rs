use crate::shared::shared;
use seed_rollout::suites::{SuiteConfig, SuiteError};

fn read(text: &str) -> Result<SuiteConfig, serde_json::Error> {
    serde_json::from_str(text)
}

#[test]
fn a_name_opens_an_environment() {
    let household = read(r#"{"name": "household", "difficulty": 0.5, "train": 7}"#).unwrap().open().unwrap();
    assert_eq!((household.name(), household.tasks("train").unwrap().len()), ("household", 7));
    let data = shared("data/alfworld");
    let text = format!(r#"{{"name": "alfworld", "data": {data:?}, "task_types": ["look_at_obj_in_light"]}}"#);
    let alfworld = read(&text).unwrap().open().unwrap();
    let tasks = alfworld.tasks("valid_unseen").unwrap();
    assert!(!tasks.is_empty() && tasks.iter().all(|task| task.kind == "look_at_obj_in_light"));
    assert_eq!(read(r#"{"name": "household"}"#).unwrap(), SuiteConfig::default());
}

#[test]
fn what_is_wrong_is_named() {
    let refused = |text: &str| read(text).unwrap_err().to_string();
    assert!(refused(r#"{"name": "houshold"}"#).contains("`houshold`, expected"));
    assert!(refused(r#"{"name": "household", "dificulty": 1}"#).contains("`dificulty`, expected"));
    let open = |text: &str| read(text).unwrap().open().err().unwrap();
    let error = open(r#"{"name": "household", "difficulty": 1.5}"#);
    assert!(matches!(error, SuiteError::Difficulty { found: 1.5 }), "{error}");
    let error = open(r#"{"name": "alfworld", "data": "/no/such/folder"}"#).to_string();
    assert!(error.contains("/no/such/folder"), "{error}");
}
