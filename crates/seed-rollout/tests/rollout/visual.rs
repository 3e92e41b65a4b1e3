//! Episodes with pictures: a lamp that is left or right, seen by the tiny Qwen2.5-VL.

use crate::shared::shared;
use seed_envs::projection::Projection;
use seed_envs::{EnvError, Environment, Image, Observation, Step, Suite, Task};
use seed_model::{
    CausalLm, ChatTemplate, ImageProcessor, ModelConfig, PlacedPicture, RenderOptions, ScoreRow, Tokenizer,
    device, score,
};
use seed_rollout::collect::{CollectError, CollectOptions, Collection, Collector, Episode, GroupPlan};
use seed_rollout::dialogue::{Dialogue, DialogueError, PromptOverflow};
use seed_rollout::engine::{Engine, EngineOptions};
use seed_rollout::eyes::{Eyes, SightError};
use seed_rollout::record::{Header, Reader, Writer};
use seed_rollout::row::{Layout, Row, RowError};
use seed_rollout::sampler::Sampling;
use seed_rollout::source::Context;
use seed_rollout::template::PromptTemplate;
use std::sync::Arc;

const FOLDER: &str = "vectors/qwen2_5_vl_tiny/float32";
const STEPS: usize = 3;

/// Shows a lamp on one side; each step moves it to the other.
#[derive(Clone, Default)]
struct Lamp {
    lit: usize,
    steps: usize,
}

impl Lamp {
    fn observation(&self) -> Observation {
        let (width, height) = (40, 30);
        let lit = |x: usize| (x / 20 == self.lit % 2) as u8;
        let rgb = (0..height).flat_map(|y| (0..width).flat_map(move |x| [lit(x) * 250, y as u8 * 4, 90]));
        let image = Image { width, height, rgb: rgb.collect() };
        Observation { text: "2+".into(), admissible: None, image: Some(Arc::new(image)) }
    }
}

impl Environment for Lamp {
    fn reset(&mut self, _: &Task, seed: u64) -> Result<Observation, EnvError> {
        *self = Self { lit: seed as usize, steps: 0 };
        Ok(self.observation())
    }

    fn step(&mut self, _: &str) -> Result<Step, EnvError> {
        self.lit += 1;
        self.steps += 1;
        let truncated = self.steps >= STEPS;
        Ok(Step { observation: self.observation(), reward: 1.0, truncated, ..Step::default() })
    }

    fn snapshot(&self) -> Box<dyn Environment> {
        Box::new(self.clone())
    }
}

struct Lamps;

impl Suite for Lamps {
    fn name(&self) -> &str {
        "ezpoints"
    }

    fn splits(&self) -> Vec<String> {
        vec!["train".into()]
    }

    fn tasks(&self, _: &str) -> Result<Arc<[Task]>, EnvError> {
        Ok([Task { id: "lamp".into(), split: "train".into(), kind: "lamp".into() }].into())
    }

    fn environment(&self) -> Box<dyn Environment> {
        Box::new(Lamp::default())
    }

    fn task_description(&self, _: &Task) -> Option<String> {
        None
    }
}

fn config() -> ModelConfig {
    let mut config = ModelConfig::read(shared(FOLDER)).unwrap();
    (config.max_position_embeddings, config.initializer_range) = (1 << 14, 0.3);
    config
}

fn model() -> CausalLm {
    CausalLm::init(&config(), 3, &device::select("cpu").unwrap())
}

fn dialogue() -> Dialogue {
    let folder = shared(FOLDER);
    let eyes = Eyes::new(ImageProcessor::load(&folder).unwrap(), &config().vision.unwrap());
    Dialogue {
        tokenizer: Tokenizer::load(&folder).unwrap(),
        chat: ChatTemplate::load(&folder).unwrap(),
        render: RenderOptions::default(),
        template: PromptTemplate::embedded("ezpoints").unwrap(),
        history_length: 2,
        eyes: Some(eyes),
    }
}

fn options(layout: Layout) -> CollectOptions {
    CollectOptions {
        layout,
        group_size: 3,
        sampling: Sampling::at(0.9),
        max_steps: 10,
        max_prompt_tokens: 4000,
        max_response_tokens: 12,
        max_row_tokens: 9000,
        run_seed: 5,
        ..CollectOptions::default()
    }
}

fn collect(dialogue: &Dialogue, model: &CausalLm, layout: Layout) -> Result<Collection, CollectError> {
    let options = options(layout);
    let projection = Projection::for_environment("ezpoints", false).unwrap();
    let collector = Collector { suite: &Lamps, dialogue, projection, options: &options };
    let end = dialogue.tokenizer.end_ids().to_vec();
    let mut engine =
        [Engine::new(model.clone(), dialogue.tokenizer.vocab_size(), end, EngineOptions::default())];
    let task = Lamps.tasks("train").unwrap()[0].clone();
    let plan = [0, 1].map(|seed| GroupPlan { task: task.clone(), seed });
    collector.collect(&mut engine, &plan, &|_| ())
}

fn logp(model: &CausalLm, row: &Row, pictures: &[PlacedPicture]) -> Vec<f32> {
    let scored = ScoreRow { prompt: &row.prompt_ids, response: &row.response_ids, pictures };
    score(model, &[scored], 0.9, false).unwrap().logp.into_data().try_to_vec().unwrap()
}

fn distance(row: &Row, expected: &[f32]) -> f32 {
    let sampled = row.logp.iter().zip(&row.response_mask).zip(expected).filter(|((_, sampled), _)| **sampled);
    sampled.map(|((found, _), expected)| (found - expected).abs()).fold(0.0, f32::max)
}

#[test]
fn rows_name_their_frames_and_score_as_they_were_sampled() {
    let (model, dialogue) = (model(), dialogue());
    let image = config().vision.unwrap().image_token_id;
    for layout in [Layout::Step, Layout::Transcript] {
        let collection = collect(&dialogue, &model, layout).unwrap();
        assert!(collection.stats.source.reused > 0, "the first prompt of a group is computed once");
        for episode in &collection.episodes {
            // Left, right, left, right: two distinct frames, the first of which the group's seed decides.
            assert_eq!(episode.frames.len(), 2);
            let seen: Vec<Option<usize>> = episode.trajectory.steps.iter().map(|step| step.image).collect();
            assert_eq!(seen, [Some(0), Some(1), Some(0)]);
            for (index, row) in episode.rows.iter().enumerate() {
                row.check(Some(dialogue.tokenizer.vocab_size())).unwrap();
                let shown: Vec<usize> = row.pictures.iter().map(|picture| picture.frame).collect();
                match layout {
                    Layout::Step => assert_eq!(shown, [index % 2]),
                    Layout::Transcript => assert_eq!(shown, [0, 1, 0]),
                }
                let pictures = episode.pictures(row, dialogue.eyes.as_ref()).unwrap();
                let ids = [row.prompt_ids.as_slice(), &row.response_ids].concat();
                let held: usize = pictures.iter().map(|placed| placed.tokens().len()).sum();
                assert_eq!(
                    ids.iter().filter(|id| **id == image).count(),
                    held,
                    "placeholders are never sampled"
                );
                assert!(pictures.iter().all(|placed| ids[placed.tokens()].iter().all(|id| *id == image)));
                let gap = distance(row, &logp(&model, row, &pictures));
                assert!(gap < 1e-4, "{layout:?}: {gap}");
                let mut other = pictures.clone();
                let swap = 1 - row.pictures[0].frame;
                other[0].picture = dialogue.eyes.as_ref().unwrap().look(&episode.frames[swap]).unwrap();
                assert!(distance(row, &logp(&model, row, &other)) > 1e-3, "what is seen matters");
            }
        }
        let episode = &collection.episodes[0];
        let of = |row: &Row| episode.pictures(row, dialogue.eyes.as_ref()).unwrap().remove(0).picture;
        let (first, again) = (of(&episode.rows[0]), of(&episode.rows[0]));
        assert!(Arc::ptr_eq(&first, &again), "equal frames are one picture");
        assert_eq!(dialogue.eyes.as_ref().unwrap().distinct(), 1);
    }
    assert_eq!(dialogue.eyes.as_ref().unwrap().distinct(), 0, "nobody holds a picture any more");
}

#[test]
fn a_teacher_sees_the_same_pictures_behind_a_longer_prompt() {
    let (model, dialogue) = (model(), dialogue());
    let collection = collect(&dialogue, &model, Layout::Step).unwrap();
    let episode = &collection.episodes[0];
    let row = &episode.rows[1];
    let prompt = |skill| {
        let overflow = PromptOverflow::DropHistory;
        dialogue.prompt_of(episode.played(), row.step, skill, Layout::Step, 9000, overflow).unwrap().context
    };
    let (student, teacher) = (prompt(None), prompt(Some("<|image_pad|> <image> Add five and seven.")));
    let pictures = episode.pictures(row, dialogue.eyes.as_ref()).unwrap();
    assert_eq!((&student.ids, &student.pictures), (&row.prompt_ids, &pictures));
    assert!(teacher.len() > student.len());
    assert_eq!(teacher.pictures.len(), 1, "a place holder in a skill is no picture");
    assert!(Arc::ptr_eq(&teacher.pictures[0].picture, &pictures[0].picture));
    let taught = ScoreRow { prompt: &teacher.ids, response: &row.response_ids, pictures: &teacher.pictures };
    assert!(score(&model, &[taught], 0.9, false).is_ok());
}

#[test]
fn recorded_episodes_keep_their_frames() {
    let (model, dialogue) = (model(), dialogue());
    let collection = collect(&dialogue, &model, Layout::Transcript).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("lamp.jsonl.zst");
    let vocabulary = dialogue.tokenizer.vocab_size();
    let header = Header::new("ezpoints", Layout::Transcript, Sampling::at(0.9), vocabulary, 5, 0);
    let mut writer = Writer::create(&path, &header).unwrap();
    collection.episodes.iter().for_each(|episode| writer.write(episode).unwrap());
    writer.finish().unwrap();
    let read: Vec<Episode> = Reader::open(&path).unwrap().map(Result::unwrap).collect();
    assert_eq!(read, collection.episodes);
    let (old, new) = (&collection.episodes[0], &read[0]);
    let pictures = |episode: &Episode| episode.pictures(&episode.rows[0], dialogue.eyes.as_ref()).unwrap();
    assert_eq!(pictures(old), pictures(new));

    let mut damaged = old.clone();
    damaged.rows[0].pictures[0].frame = 7;
    let error = damaged.pictures(&damaged.rows[0], dialogue.eyes.as_ref()).unwrap_err().to_string();
    assert_eq!(error, "the row looks at frame 7, the episode has 2");
    let mut row = old.rows[0].clone();
    row.pictures.swap(0, 1);
    assert!(matches!(row.check(None), Err(RowError::Picture { index: 1, .. })));
}

#[test]
fn a_policy_of_text_is_told_that_it_cannot_see() {
    let blind = Dialogue { eyes: None, ..dialogue() };
    let error = collect(&blind, &model(), Layout::Step).unwrap_err();
    assert!(matches!(error, CollectError::Dialogue(DialogueError::Sight(SightError::Blind))), "{error}");
    let text = Dialogue { template: PromptTemplate::embedded("household").unwrap(), ..dialogue() };
    let error = collect(&text, &model(), Layout::Step).unwrap_err().to_string();
    assert!(error.contains("no `{{image}}`"), "{error}");
}

#[test]
fn contexts_share_no_picture_that_differs() {
    let dialogue = dialogue();
    let eyes = dialogue.eyes.as_ref().unwrap();
    let look = |lit| eyes.look(Lamp { lit, steps: 0 }.observation().image.as_ref().unwrap()).unwrap();
    let image = config().vision.unwrap().image_token_id;
    let context = |lit: &[usize], tail: &[u32]| {
        let pictures: Vec<_> = lit.iter().map(|lit| look(*lit)).collect();
        let (ids, pictures) = eyes.place(&[1, image, 2, image, 3], &pictures).unwrap();
        Context { ids: [&ids, tail].concat(), pictures }
    };
    let (a, b, c) = (context(&[0, 1], &[4, 5]), context(&[0, 1], &[4, 6]), context(&[0, 0], &[4, 5]));
    let second = a.pictures[1].tokens();
    assert_eq!(a.common(&b), a.len() - 1);
    assert_eq!(a.common(&c), second.start);
    assert_eq!(a.common(&Context::from(a.ids.clone())), a.pictures[0].start);
    assert_eq!(a.before_picture(second.start + 1), second.start);
    assert_eq!((a.before_picture(second.end), a.before_picture(second.start)), (second.end, second.start));
    let tail = a.tail(second.start);
    assert_eq!((tail.len(), tail.pictures[0].start, tail.pictures.len()), (a.len() - second.start, 0, 1));
}
