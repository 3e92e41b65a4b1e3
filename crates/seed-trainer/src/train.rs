//! A whole run: evaluation, stage 1, stage 2, checkpoints; from the start or from where it was killed.

use crate::checkpoint::{self, Companions, SaveError, TrainerState, Weights};
use crate::config::{Config, ConfigError, Dtype, Resolved, SkillSource, TeacherWeights};
use crate::evaluate::{Panel, evaluate};
use crate::learner::Learner;
use crate::mesh::Mesh;
use crate::metrics::{MetricsWriter, Record};
use crate::observer::{Event, Observer};
use crate::rl::recorded::{Recorded, RecordedError};
use crate::rl::skills::{SkillSourceError, Skills};
use crate::rl::step::{StepContext, StepError, StepOutcome, Stopped, step};
use crate::rl::update::UpdateError;
use crate::run_folder::{Manifest, RunFolder, StorageError, hash_file, hash_texts, write_file};
use crate::sft::{self, SftError};
use crate::tasks::TaskOrder;
use crate::world::{World, WorldError};
use burn::module::Module;
use burn::tensor::{Device, FloatDType};
use seed_envs::{EnvError, Task};
use seed_model::checkpoint::CheckpointError;
use seed_model::device::DeviceError;
use seed_model::lora::{Lora, LoraError};
use seed_model::optim::Ema;
use seed_model::{CausalLm, GenerationConfig};
use seed_rollout::collect::CollectError;
use seed_rollout::dialogue::DialogueError;
use seed_rollout::engine::{Engine, EngineOptions};
use seed_rollout::eyes::Eyes;
use seed_rollout::record::{Header, RecordError, Writer};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

/// Why a run stops.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrainError {
    /// The configuration.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The device.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The model folder.
    #[error(transparent)]
    Model(#[from] CheckpointError),
    /// The adapter.
    #[error(transparent)]
    Adapter(#[from] LoraError),
    /// Environment, prompts or tokenizer.
    #[error(transparent)]
    World(#[from] WorldError),
    /// A split or a game.
    #[error(transparent)]
    Environment(#[from] EnvError),
    /// The run folder.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// A checkpoint.
    #[error(transparent)]
    Save(#[from] SaveError),
    /// Recorded episodes cannot be written.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// Recorded episodes cannot be trained on.
    #[error(transparent)]
    Recorded(#[from] RecordedError),
    /// Episodes of an evaluation.
    #[error(transparent)]
    Collect(Box<CollectError>),
    /// Text and tokens cannot be turned into each other.
    #[error(transparent)]
    Dialogue(#[from] DialogueError),
    /// Skills cannot be written.
    #[error(transparent)]
    Skills(#[from] SkillSourceError),
    /// Stage 1.
    #[error(transparent)]
    Sft(Box<SftError>),
    /// Stage 2.
    #[error("update {update}")]
    Step {
        /// The update, from 1.
        update: u64,
        /// What went wrong.
        source: Box<StepError>,
    },
    /// A loss or gradient that is not a number; the batch is on disk.
    #[error("update {update}: {problem}; its batch is in {}", dump.display())]
    NotFinite {
        /// The update, from 1.
        update: u64,
        /// What was found where.
        problem: UpdateError,
        /// The file with all rows of the update.
        dump: PathBuf,
    },
    /// Nothing to play.
    #[error("split `{split}` of `{environment}` has no tasks")]
    NoTasks {
        /// The split.
        split: String,
        /// The environment.
        environment: String,
    },
}

impl From<SftError> for TrainError {
    fn from(error: SftError) -> Self {
        Self::Sft(Box::new(error))
    }
}

impl From<CollectError> for TrainError {
    fn from(error: CollectError) -> Self {
        Self::Collect(Box::new(error))
    }
}

/// What a finished run says.
#[derive(Debug, Clone)]
pub struct Finished {
    /// The run folder.
    pub folder: PathBuf,
    /// The newest checkpoint.
    pub checkpoint: PathBuf,
    /// Success on the first panel before anything, if it was measured.
    pub before: Option<f64>,
    /// Success on the first panel when it was last measured.
    pub after: Option<f64>,
}

/// Starts a run in a new folder.
///
/// # Errors
/// [`TrainError`]; what was written before stays, for a resume.
pub fn train(resolved: &Resolved, observer: &dyn Observer) -> Result<Finished, TrainError> {
    let setup = Setup::open(resolved.config())?.with_recordings()?;
    let folder = RunFolder::create(resolved)?;
    folder.write_manifest(&setup.manifest(resolved)?)?;
    Run::new(setup, folder, observer, None)?.finish()
}

/// Goes on with a run from its newest whole checkpoint, or from its start when there is none.
///
/// # Errors
/// [`TrainError`].
pub fn resume(path: &Path, observer: &dyn Observer) -> Result<Finished, TrainError> {
    let folder = RunFolder::open(path)?;
    let config = Config { ..folder.config()? };
    let newest = folder.checkpoints()?.pop();
    let setup = Setup::open(&config)?.with_recordings()?;
    Run::new(setup, folder, observer, newest)?.finish()
}

/// Everything that a run needs and does not change.
pub struct Setup {
    /// The configuration.
    pub config: Config,
    /// Where the weights live that are trained: the first of `device`.
    pub device: Device,
    /// The workers.
    pub mesh: Mesh,
    /// Environment, prompts, tokenizer.
    pub world: World,
    /// Training tasks.
    pub tasks: Arc<[Task]>,
    /// Evaluation panels, the headline first.
    pub panels: Vec<Panel>,
    /// Episodes to train on in place of new ones; read by [`Setup::with_recordings`].
    pub recorded: Option<Recorded>,
    /// Of the starting model.
    pub generation_config: Option<GenerationConfig>,
    /// The starting model, with gradients; with `model.lora_rank`, under an adapter that changes nothing yet.
    pub model: CausalLm,
    /// How its weights go into checkpoints.
    pub weights: Weights,
}

impl Setup {
    /// Loads and checks everything that a run needs.
    ///
    /// # Errors
    /// [`TrainError`] for a device, model, environment or split that is not there.
    pub fn open(config: &Config) -> Result<Self, TrainError> {
        let devices = seed_model::device::select_all(&config.run.device)?;
        let device = devices[0].clone();
        let folder = Path::new(&config.model.path);
        let loaded = seed_model::checkpoint::load(folder, &device.clone().autodiff(), dtype(config))?;
        let world = World::open(config, folder)?;
        let tasks = world.suite.tasks(&config.env.train_split)?;
        if tasks.is_empty() {
            let (split, environment) = (config.env.train_split.clone(), config.env.name.to_string());
            return Err(TrainError::NoTasks { split, environment });
        }
        let tasks = match config.env.train_tasks {
            0 => tasks,
            count => tasks[..count.min(tasks.len())].into(),
        };
        let panel = |split: &String| Panel::new(world.suite.as_ref(), split, config.eval.games);
        let panels = config.eval.splits.iter().map(panel).collect::<Result<_, _>>()?;
        let (model, weights) = match config.model.lora_rank {
            0 => (loaded.model.train_vision(config.model.train_vision), Weights::Whole),
            rank => {
                let lora = Lora::new(rank, config.model.lora_alpha);
                let model = lora.attach(&loaded.model, config.run.seed)?;
                (model, Weights::Adapter { lora, base: folder.to_path_buf() })
            }
        };
        Ok(Self {
            config: config.clone(),
            device,
            mesh: Mesh::over(&devices, config.run.workers),
            world,
            tasks,
            panels,
            recorded: None,
            generation_config: loaded.generation_config,
            model,
            weights,
        })
    }

    /// With the episodes of `rollout.recorded`, which training alone needs.
    ///
    /// # Errors
    /// [`TrainError`] for a file that is not there or was recorded under other settings.
    pub fn with_recordings(mut self) -> Result<Self, TrainError> {
        self.recorded = match self.config.rollout.recorded.as_str() {
            "" => None,
            path => Some(Recorded::open(Path::new(path), &self.config, &self.world)?),
        };
        Ok(self)
    }

    /// The starting weights, without gradients.
    pub fn snapshot(&self) -> CausalLm {
        self.model.valid()
    }

    /// One engine a worker over these weights, on the worker's device.
    pub fn engines(&self, model: &CausalLm) -> Vec<Engine> {
        let tokenizer = &self.world.dialogue.tokenizer;
        let sessions = self.config.rollout.concurrency.div_ceil(self.mesh.workers());
        let options = EngineOptions { sessions, ..EngineOptions::default() };
        let engine =
            |model| Engine::new(model, tokenizer.vocab_size(), tokenizer.end_ids().iter().copied(), options);
        self.mesh.replicas(model, self.mesh.workers()).into_iter().map(engine).collect()
    }

    /// All devices in words.
    pub(crate) fn devices(&self) -> String {
        let words = |device| format!("{device:?}");
        match self.mesh.devices() {
            [] => words(&self.device),
            several => several.iter().map(words).collect::<Vec<_>>().join(", "),
        }
    }

    fn manifest(&self, resolved: &Resolved) -> Result<Manifest, TrainError> {
        let mut manifest = Manifest::new(resolved, &self.devices(), self.mesh.workers());
        let folder = Path::new(&self.config.model.path);
        let entries = std::fs::read_dir(folder).map_err(|e| StorageError::read(folder, e))?;
        for path in entries.filter_map(|entry| Some(entry.ok()?.path())).filter(|path| path.is_file()) {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            manifest.hashes.insert(format!("model/{name}"), hash_file(&path)?);
        }
        let ids = |tasks: &mut dyn Iterator<Item = &Task>| {
            let ids: Vec<&str> = tasks.map(|task| task.id.as_str()).collect();
            hash_texts(ids)
        };
        manifest.hashes.insert("tasks/train".into(), ids(&mut self.tasks.iter()));
        for panel in &self.panels {
            let hash = ids(&mut panel.groups.iter().map(|group| &group.task));
            manifest.hashes.insert(format!("tasks/{}", panel.split), hash);
        }
        Ok(manifest)
    }
}

fn dtype(config: &Config) -> FloatDType {
    match config.model.dtype {
        Dtype::F32 => FloatDType::F32,
        Dtype::Bf16 => FloatDType::BF16,
    }
}

struct Run<'a> {
    setup: Setup,
    folder: RunFolder,
    observer: &'a dyn Observer,
    metrics: MetricsWriter,
    learner: Learner,
    /// What stage 2 started from; `None` until stage 1 is over.
    reference: Option<CausalLm>,
    ema: Option<Ema<CausalLm>>,
    engines: Vec<Engine>,
    /// `None` until stage 2 begins.
    skills: Option<Skills>,
    state: TrainerState,
}

impl<'a> Run<'a> {
    fn new(
        setup: Setup,
        folder: RunFolder,
        observer: &'a dyn Observer,
        newest: Option<u64>,
    ) -> Result<Self, TrainError> {
        let config = &setup.config;
        let metrics = MetricsWriter::open(folder.path(), newest)?;
        let learner_of =
            |model| Learner::new(model, (&config.optim).into()).with_activations((&config.model).into());
        let mut learner = learner_of(setup.model.clone());
        let (mut reference, mut ema, mut state) = (None, None, TrainerState::default());
        if let Some(update) = newest {
            let place = folder.checkpoint(update);
            state = checkpoint::read_state(&place)?;
            let load = |folder: &Path, device: &Device| setup.weights.load(folder, device, dtype(config));
            let model = load(&place, &setup.device.clone().autodiff())?;
            let optimizer = place.join("trainer/optimizer.safetensors");
            learner = learner_of(model.train_vision(config.model.train_vision));
            learner
                .load_optimizer(&optimizer, (&config.optim).into(), &setup.device)
                .map_err(SaveError::from)?;
            reference = Some(load(&folder.checkpoint(0), &setup.device)?);
            let average = checkpoint::read_ema(&place, &setup.weights, &setup.device, dtype(config))?;
            ema = average.map(|model| Ema::new(&model, config.opd.ema_decay));
            observer.event(Event::Note(&format!("resumed from update {update}")));
        }
        let engines = setup.engines(&learner.snapshot());
        Ok(Self { setup, folder, observer, metrics, learner, reference, ema, engines, skills: None, state })
    }

    fn finish(mut self) -> Result<Finished, TrainError> {
        if self.reference.is_none() {
            self.stage_1()?;
        }
        self.stage_2()?;
        let success = self.successes()?;
        let measured_before = self.config().eval.before;
        Ok(Finished {
            folder: self.folder.path().to_path_buf(),
            checkpoint: self.folder.checkpoint(self.state.update),
            before: success.first().copied().filter(|_| measured_before),
            after: success.last().copied(),
        })
    }

    fn config(&self) -> &Config {
        &self.setup.config
    }

    fn companions(&self) -> Companions<'_> {
        let dialogue = &self.setup.world.dialogue;
        Companions {
            tokenizer: &dialogue.tokenizer,
            chat: &dialogue.chat,
            generation_config: self.setup.generation_config.as_ref(),
            processor: dialogue.eyes.as_ref().map(Eyes::processor),
        }
    }

    /// Hands the present weights to the engines.
    fn refresh_engines(&mut self) {
        let snapshot = self.learner.snapshot();
        self.setup.mesh.refresh(&mut self.engines, &snapshot);
    }

    /// Evaluation before everything, stage 1, the first checkpoint.
    fn stage_1(&mut self) -> Result<(), TrainError> {
        if self.config().eval.before {
            let (record, _) = self.evaluate()?;
            self.metrics.write(0, &record)?;
            self.observer.event(Event::Step { stage: "base", step: 0, total: 0, record: &record });
        }
        if self.config().sft.enabled {
            let record =
                sft::run(&self.setup, &self.folder, &mut self.learner, &mut self.engines, self.observer)?;
            self.metrics.write(0, &record)?;
            self.observer.event(Event::Step { stage: "stage 1", step: 0, total: 0, record: &record });
            // Stage 2 starts with an optimiser of its own.
            self.learner.reset_optimizer((&self.setup.config.optim).into());
            self.refresh_engines();
        }
        let snapshot = self.learner.snapshot();
        if self.config().opd.teacher_weights == TeacherWeights::Ema {
            self.ema = Some(Ema::new(&snapshot, self.config().opd.ema_decay));
        }
        self.reference = Some(snapshot);
        self.save()
    }

    fn stage_2(&mut self) -> Result<(), TrainError> {
        let total = self.config().train.updates as u64;
        let tasks = self.setup.tasks.clone();
        let order = TaskOrder::new(&tasks, self.config().run.seed, "tasks");
        let reference = self.reference.as_ref().expect("stage 1 is over");
        let frozen = || self.setup.engines(reference);
        self.skills = Some(Skills::new(&self.setup.world, &self.setup.config, frozen)?);
        while self.state.update < total {
            let outcome = self.update(&order)?;
            self.state.update += 1;
            let update = self.state.update;
            let StepOutcome { mut record, episodes, analyses, samples } = outcome;
            self.refresh_engines();
            if self.due(self.config().eval.every, update) {
                let started = Instant::now();
                let (numbers, success) = self.evaluate()?;
                record.merge(numbers);
                record.set("time/eval", started.elapsed().as_secs_f64());
                if self.state.best.is_none_or(|(best, _)| success > best) {
                    self.state.best = Some((success, update));
                }
            }
            if self.due(self.config().rollout.record_every, update) {
                self.record(update, &episodes, &analyses, &samples)?;
            }
            if let Some(memory) = resident_mib() {
                record.set("perf/memory_mib", memory);
            }
            // Metrics before the checkpoint: a kill between the two only repeats the update.
            self.metrics.write(update, &record)?;
            self.observer.event(Event::Step { stage: "rl", step: update, total, record: &record });
            let best = self.state.best.is_some_and(|(_, at)| at == update);
            if self.due(self.config().checkpoint.every, update) || best {
                self.save()?;
                let keep = self.config().checkpoint.keep;
                checkpoint::prune(&self.folder, keep, self.state.best.map(|(_, at)| at))?;
            }
        }
        Ok(())
    }

    /// Whether something that is done every so many updates is done in this one; the last one always counts.
    fn due(&self, every: usize, update: u64) -> bool {
        update == self.config().train.updates as u64 || (every > 0 && update.is_multiple_of(every as u64))
    }

    fn update(&mut self, order: &TaskOrder<'_>) -> Result<StepOutcome, TrainError> {
        let completed = self.state.update;
        let measure_lift = self.due(self.config().rollout.record_every, completed + 1);
        let reference = self.reference.as_ref().expect("stage 1 is over");
        let skills = self.skills.as_mut().expect("stage 1 is over");
        let context = StepContext {
            world: &self.setup.world,
            config: &self.setup.config,
            mesh: &self.setup.mesh,
            tasks: order,
            reference,
            ema: self.ema.as_ref().map(Ema::model),
            recorded: self.setup.recorded.as_ref(),
            measure_lift,
            observer: self.observer,
        };
        let outcome = step(&context, &mut self.learner, &mut self.engines, skills, completed);
        let outcome = match outcome {
            Ok(outcome) => outcome,
            Err(stopped) => return Err(self.stopped(completed + 1, *stopped)),
        };
        if let Some(ema) = &mut self.ema {
            ema.update(self.learner.model());
        }
        Ok(outcome)
    }

    /// The error of an update; where a number was not finite its rows are written first.
    fn stopped(&self, update: u64, stopped: Stopped) -> TrainError {
        let Stopped { error, samples } = stopped;
        let StepError::Update(problem @ UpdateError::NotFinite { .. }) = error else {
            return TrainError::Step { update, source: Box::new(error) };
        };
        let dump = self.folder.path().join(format!("not-finite-update-{update:06}.json"));
        let text = serde_json::to_vec(&samples).expect("samples are plain data");
        match write_file(&dump, &text) {
            Ok(()) => TrainError::NotFinite { update, problem, dump },
            Err(error) => error.into(),
        }
    }

    /// Plays every panel; returns its numbers and the success on the first.
    fn evaluate(&mut self) -> Result<(Record, f64), TrainError> {
        let mut all = Record::new();
        let mut success = None;
        for panel in &self.setup.panels {
            let (record, _) =
                evaluate(&self.setup.world, &mut self.engines, panel, &self.setup.config, self.observer)?;
            success = success.or(record.get(&format!("eval/{}/success", panel.split)));
            all.merge(record);
        }
        Ok((all, success.unwrap_or(0.0)))
    }

    fn save(&mut self) -> Result<(), TrainError> {
        checkpoint::save(
            &self.folder,
            &self.learner,
            &self.setup.weights,
            self.companions(),
            &self.state,
            self.ema.as_ref().map(Ema::model),
        )?;
        Ok(())
    }

    fn record(
        &self,
        update: u64,
        episodes: &[seed_rollout::collect::Episode],
        analyses: &[crate::rl::skills::Analysis],
        samples: &[crate::rl::sample::Sample],
    ) -> Result<(), TrainError> {
        let config = self.config();
        let options = self.setup.world.collect_options(config);
        let header = Header::new(
            self.setup.world.suite.name(),
            options.layout,
            options.sampling,
            self.setup.world.dialogue.tokenizer.vocab_size(),
            config.run.seed,
            update,
        );
        let mut writer = Writer::create(self.folder.step_file("rollouts", update, "jsonl.zst"), &header)?;
        episodes.iter().try_for_each(|episode| writer.write(episode))?;
        writer.finish()?;
        if config.opd.skills != SkillSource::None {
            let lines: String = analyses
                .iter()
                .zip(episodes)
                .map(|(analysis, episode)| format!("{}\n", analysis.to_json(&episode.trajectory)))
                .collect();
            write_file(&self.folder.step_file("skills", update, "jsonl"), lines.as_bytes())?;
        }
        if let Some(view) =
            crate::token_view::token_view(&self.setup.world, config, episodes, analyses, samples)
        {
            let path = self.folder.step_file("rollouts", update, "tokens.json");
            write_file(&path, view.to_string().as_bytes())?;
        }
        Ok(())
    }

    /// Success on the first panel, every time it was measured.
    fn successes(&self) -> Result<Vec<f64>, TrainError> {
        let name = format!("eval/{}/success", self.setup.panels[0].split);
        let lines = crate::metrics::read_jsonl(&self.folder.path().join("metrics.jsonl"))?;
        Ok(lines.iter().filter_map(|(_, numbers)| numbers.get(&name)?.as_f64()).collect())
    }
}

/// Resident memory of this process in MiB, where the system tells.
fn resident_mib() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: f64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kib / 1024.0)
}
