//! What a model and a batch cost, before anything is allocated: parameters, arithmetic, bytes.
//!
//! Formulas count what this crate keeps. Shape letters: `H` hidden, `I` intermediate, `Q` and `K` widths of queries and keys, `V` vocabulary.

use crate::config::ModelConfig;
use crate::lora::Lora;
use std::fmt;

/// How a model is trained.
#[derive(Debug, Clone, PartialEq)]
pub enum Trained {
    /// Nothing: scoring and generation only.
    Nothing,
    /// All weights.
    Full,
    /// A low-rank adapter; the base is constant.
    Adapter(Lora),
}

/// What to plan for.
#[derive(Debug, Clone, PartialEq)]
pub struct Workload {
    /// Rows of one forward and backward pass (a micro-batch), over all devices.
    pub rows: usize,
    /// Passes that run at the same time on one device over the same weights: worker threads.
    pub passes: usize,
    /// An optimiser step takes several passes after another: their gradients are summed.
    pub accumulate: bool,
    /// Further copies of the weights, without gradients: a reference, a moving average.
    pub copies: usize,
    /// Tokens of a row before its response.
    pub prompt_tokens: usize,
    /// Tokens of a row that are scored.
    pub response_tokens: usize,
    /// What learns.
    pub trained: Trained,
    /// Bytes of one weight and one activation: 4 for f32, 2 for bf16.
    pub weight_bytes: usize,
    /// Keep block inputs only and compute the rest again.
    pub recompute: bool,
    /// Rows generated at the same time, over all devices; 0 plans no cache.
    pub sequences: usize,
    /// Devices that share the rows; each holds all weights, gradients and optimiser state.
    pub devices: usize,
}

impl Workload {
    /// Full training of f32 weights on one device, with a cache for the same number of rows.
    pub fn new(rows: usize, prompt_tokens: usize, response_tokens: usize) -> Self {
        Self {
            rows,
            passes: 1,
            accumulate: false,
            copies: 0,
            prompt_tokens,
            response_tokens,
            trained: Trained::Full,
            weight_bytes: 4,
            recompute: false,
            sequences: rows,
            devices: 1,
        }
    }

    fn row_tokens(&self) -> usize {
        self.prompt_tokens + self.response_tokens
    }
}

/// What a [`Workload`] costs.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// Weights of the model, a tied head counted once; adapters not included.
    pub parameters: u64,
    /// Weights that learn.
    pub trainable: u64,
    /// Floating-point operations of one forward pass of the batch (a multiplication and an addition are two).
    pub forward_flops: u64,
    /// The same of one pass of training: forward, backward and what is computed again.
    pub training_flops: u64,
    /// Bytes on each device.
    pub bytes: PlanBytes,
}

/// Bytes on one device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PlanBytes {
    /// Weights, adapters included.
    pub weights: u64,
    /// Copies of the weights that do not learn.
    pub copies: u64,
    /// One gradient for each weight that learns, in each pass.
    pub gradients: u64,
    /// The sum of the gradients over passes, where there are several.
    pub accumulated: u64,
    /// Moments in f32, and master weights where weights are not f32.
    pub optimiser: u64,
    /// Peak of what the forward passes leave for the backward passes, with the temporary values beside it.
    pub activations: u64,
    /// The part of it that a block at work needs in each pass; there still when the last gradients arrive.
    pub block: u64,
    /// Keys and values of all sequences at full length.
    pub cache: u64,
}

impl PlanBytes {
    /// Peak of a training step. Activations go while gradients come, so that the larger of the two moments counts; the cache is free by
    /// then.
    pub fn training(&self) -> u64 {
        self.standing() + self.accumulated + self.activations.max(self.gradients + self.block)
    }

    /// All of generation; the optimiser keeps its state meanwhile.
    pub fn generation(&self) -> u64 {
        self.standing() + self.cache
    }

    fn standing(&self) -> u64 {
        self.weights + self.copies + self.optimiser
    }
}

/// The cost of `workload` with a model of this shape.
pub fn plan(config: &ModelConfig, workload: &Workload) -> Plan {
    let n = |value: usize| value as u64;
    let (hidden, inner, vocab) = (n(config.hidden_size), n(config.intermediate_size), n(config.vocab_size));
    let dim = n(config.head_dim);
    let (q, k) = (n(config.num_attention_heads) * dim, n(config.num_key_value_heads) * dim);
    let layers = n(config.num_hidden_layers);

    let block_matrices = hidden * q * 2 + hidden * k * 2 + 3 * hidden * inner;
    let biases = u64::from(config.qkv_bias()) * (q + 2 * k) + u64::from(config.output_bias()) * hidden;
    let norms = 2 * hidden + u64::from(config.qk_norm()) * 2 * dim;
    let head = if config.tie_word_embeddings { 0 } else { vocab * hidden };
    let tower = config.vision.as_ref().map_or(0, |vision| vision.parameters());
    let parameters = vocab * hidden + layers * (block_matrices + biases + norms) + hidden + head + tower;
    let adapter = match &workload.trained {
        Trained::Adapter(lora) => layers * adapter_parameters(lora, [hidden, q, k, inner]),
        _ => 0,
    };
    let trainable = match &workload.trained {
        Trained::Nothing => 0,
        Trained::Full => parameters,
        Trained::Adapter(_) => adapter,
    };

    let length = n(workload.row_tokens());
    let tokens = n(workload.rows) * length;
    let scored = n(workload.rows) * n(workload.response_tokens);
    // Each token attends to itself and all before it: (length + 1) / 2 on average, scores and mixing.
    let attention = 4 * q * (length + 1) / 2;
    let forward_flops = tokens * layers * (2 * block_matrices + attention) + scored * 2 * vocab * hidden;
    let sweeps = match workload.trained {
        Trained::Nothing => 1,
        Trained::Full => 3,
        Trained::Adapter(_) => 2,
    };
    let again = u64::from(workload.recompute && workload.trained != Trained::Nothing);
    let training_flops = (sweeps + again) * forward_flops + 6 * tokens * adapter;

    let devices = n(workload.devices.max(1));
    let width = n(workload.weight_bytes);
    let tokens_here = tokens.div_ceil(devices);
    // Of each block: inputs of norms and products, turned queries and keys, values, the mixed values, the gate's factors.
    let norms_of_heads = if config.qk_norm() { q + k } else { 0 };
    let of_block = 4 * hidden + 2 * q + 2 * k + 3 * inner + norms_of_heads;
    // Temporary values and gradients beside them; logits exist a few rows at a time and do not count.
    let working = 4 * hidden + 2 * inner.max(q);
    let (kept, at_work) = match workload.trained {
        Trained::Nothing => (0, 0),
        _ if workload.recompute => (layers * hidden + of_block, of_block),
        _ => (layers * of_block, of_block),
    };
    let passes = n(workload.passes.max(1));
    let (activations, block) =
        (passes * tokens_here * (kept + working) * width, passes * tokens_here * (at_work + working) * width);
    let weights = parameters * width + adapter * 4;
    let gradient = if adapter > 0 { adapter * 4 } else { trainable * width };
    let bytes = PlanBytes {
        weights,
        copies: n(workload.copies) * weights,
        gradients: passes * gradient,
        accumulated: if passes > 1 || workload.accumulate { gradient } else { 0 },
        optimiser: trainable * (8 + if workload.weight_bytes == 4 || adapter > 0 { 0 } else { 4 }),
        activations,
        block,
        cache: (n(workload.sequences) * length).div_ceil(devices) * layers * 2 * k * width,
    };
    Plan { parameters, trainable, forward_flops, training_flops, bytes }
}

/// Adapter weights of one block.
fn adapter_parameters(lora: &Lora, [hidden, q, k, inner]: [u64; 4]) -> u64 {
    let sizes = lora.target_modules.iter().map(|target| match target.as_str() {
        "q_proj" | "o_proj" => hidden + q,
        "k_proj" | "v_proj" => hidden + k,
        "gate_proj" | "up_proj" | "down_proj" => hidden + inner,
        _ => 0,
    });
    lora.rank as u64 * sizes.sum::<u64>()
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mb = |bytes: u64| format!("{:>12.1} MB", bytes as f64 / 1e6);
        writeln!(f, "parameters      {:>12.3} M", self.parameters as f64 / 1e6)?;
        writeln!(f, "trainable       {:>12.3} M", self.trainable as f64 / 1e6)?;
        writeln!(f, "forward         {:>12.3} GFLOP", self.forward_flops as f64 / 1e9)?;
        writeln!(f, "with backward   {:>12.3} GFLOP", self.training_flops as f64 / 1e9)?;
        writeln!(f, "on each device")?;
        writeln!(f, "  weights       {}", mb(self.bytes.weights))?;
        if self.bytes.copies > 0 {
            writeln!(f, "  copies        {}", mb(self.bytes.copies))?;
        }
        writeln!(f, "  gradients     {}", mb(self.bytes.gradients + self.bytes.accumulated))?;
        writeln!(f, "  optimiser     {}", mb(self.bytes.optimiser))?;
        writeln!(f, "  activations   {}", mb(self.bytes.activations))?;
        writeln!(f, "  cache         {}", mb(self.bytes.cache))?;
        writeln!(f, "  training peak {}", mb(self.bytes.training()))?;
        write!(f, "  generation    {}", mb(self.bytes.generation()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Family;

    #[test]
    fn parameters_and_adapters_are_counted_by_hand() {
        let mut config = ModelConfig::new(Family::Qwen2, 512, 64, 160, 3, (4, 2, 16));
        config.tie_word_embeddings = false;
        let mut workload = Workload::new(2, 10, 6);
        // The tiny Qwen2 checkpoint has 195,392 weights.
        assert_eq!(plan(&config, &workload).parameters, 195_392);
        workload.trained =
            Trained::Adapter(Lora::new(4, 8.0).with_targets(["q_proj", "v_proj", "gate_proj", "down_proj"]));
        assert_eq!(plan(&config, &workload).trainable, 3 * 4 * ((64 + 64) + (64 + 32) + 2 * (64 + 160)));
    }

    #[test]
    fn more_devices_share_rows_and_copy_weights() {
        let config = ModelConfig::new(Family::Qwen3, 1000, 64, 160, 3, (4, 2, 32));
        let one = plan(&config, &Workload::new(8, 100, 28));
        let two = plan(&config, &Workload { devices: 2, ..Workload::new(8, 100, 28) });
        assert_eq!((two.bytes.weights, two.bytes.optimiser), (one.bytes.weights, one.bytes.optimiser));
        assert_eq!(two.bytes.cache * 2, one.bytes.cache);
        assert!(two.bytes.activations < one.bytes.activations);
        assert_eq!(one.training_flops, 3 * one.forward_flops);
    }

    #[test]
    fn passes_share_weights_and_add_their_own_gradients() {
        let config = ModelConfig::new(Family::Llama, 1000, 64, 160, 3, (4, 2, 32));
        let one = plan(&config, &Workload::new(8, 100, 28)).bytes;
        let more = Workload { passes: 3, copies: 2, ..Workload::new(8, 100, 28) };
        let three = plan(&config, &more).bytes;
        assert_eq!((three.weights, three.optimiser), (one.weights, one.optimiser));
        assert_eq!((three.activations, three.gradients), (3 * one.activations, 3 * one.gradients));
        assert_eq!((three.accumulated, three.copies), (one.gradients, 2 * one.weights));
        assert_eq!(one.accumulated, 0);
    }
}
