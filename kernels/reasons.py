"""Why a deployment has no answer: codes that kernels return, words that results show."""

(
    OK,
    WEIGHTS_DO_NOT_FIT,
    KV_BELOW_ONE_REQUEST,
    HEADS_NOT_DIVISIBLE,
    EXPERTS_NOT_DIVISIBLE,
    EXPERT_GRID_MISMATCH,
    LAYERS_BELOW_STAGES,
    NO_MATH_FOR_DTYPE,
    MORE_GPUS_THAN_DOMAIN,
    CONTEXT_TOO_LONG,
    HARDWARE_FIGURE_UNKNOWN,
    VOCAB_NOT_DIVISIBLE,
    FFN_NOT_DIVISIBLE,
    BUDGET_BELOW_PROMPT,
    MORE_GPUS_THAN_AVAILABLE,
    NO_FINITE_ANSWER,
) = range(16)

TEXT = (
    "",
    "weights do not fit in GPU memory",
    "KV cache is smaller than one request",
    "tp does not divide the attention heads",
    "moe_ep does not divide the experts",
    "moe_tp * moe_ep is not tp * attention_dp",
    "more pipeline stages than layers",
    "the accelerator has no math for this number format",
    "tensor or expert group is wider than the fabric reaches",
    "isl + osl is longer than the model's context",
    "a datasheet figure that this answer needs is unknown",
    "tp does not divide the vocabulary",
    "moe_tp does not divide the expert width",
    "token budget is below the prompt and chunked prefill is off",
    "more GPUs than the cluster has",
    "inputs contradict each other: no finite answer",
)
