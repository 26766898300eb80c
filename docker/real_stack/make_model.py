"""Makes a language model of a few megabytes that guesses: `python make_model.py FOLDER`.

A Llama whose every next token depends on the last one alone, with one token per byte. After a chat prompt it writes
`\\boxed{` and a letter from A to J, each as likely as the others, then `}` and the end: a well-formed guess at a
multiple-choice question. So the server, its sampling and the grading are real, and rewards are neither all 0 nor all 1.
Every machine makes the same model.
"""

from __future__ import annotations

import sys
from itertools import pairwise
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

END, ROLES = "<|end|>", ["<|system|>", "<|developer|>", "<|user|>", "<|assistant|>"]
LETTERS = "ABCDEFGHIJ"
CHAT_TEMPLATE = (
    "{% for message in messages %}<|{{ message['role'] }}|>{{ message['content'] }}" + END + "{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
# vLLM's CPU attention refuses heads narrower than 32; a prompt of the benchmark is up to 1,500 tokens long.
HIDDEN_SIZE, HEADS, LAYERS, MAX_TOKENS = 256, 4, 2, 4096
# How much likelier a next token is than all the others, in logits, before the noise of crowded directions.
CERTAINTY = 60.0


def make_tokenizer() -> PreTrainedTokenizerFast:
    """Returns a tokenizer with a token for every byte and every role, so that no text is unknown to it."""
    bytes_ = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token: number for number, token in enumerate([END, *ROLES, *bytes_])}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token=END,
        pad_token=END,
        additional_special_tokens=ROLES,
        chat_template=CHAT_TEMPLATE,
        model_max_length=MAX_TOKENS,
    )


def steps() -> list[tuple[str, str]]:
    r"""Returns which token follows which: `<|assistant|>`, `\`, `b` ... `{`, a letter, `}`, `<|end|>`."""
    opening = pairwise(["<|assistant|>", *"\\boxed{"])
    return [*opening, *(("{", letter) for letter in LETTERS), *((letter, "}") for letter in LETTERS), ("}", END)]


def make_model(tokenizer: PreTrainedTokenizerFast) -> LlamaForCausalLM:
    """Returns the model: layers that add nothing, and an output that looks the last token up in `steps`."""
    torch.manual_seed(0)
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(tokenizer),
            hidden_size=HIDDEN_SIZE,
            intermediate_size=2 * HIDDEN_SIZE,
            num_attention_heads=HEADS,
            num_key_value_heads=HEADS,
            num_hidden_layers=LAYERS,
            max_position_embeddings=MAX_TOKENS,
            bos_token_id=None,
            eos_token_id=tokenizer.eos_token_id,
            pad_token_id=tokenizer.pad_token_id,
        )
    )
    with torch.no_grad():
        for layer in model.model.layers:
            layer.self_attn.o_proj.weight.zero_()
            layer.mlp.down_proj.weight.zero_()
        # Directions of plus and minus ones: all of the same length, and nearly at right angles to each other.
        directions = torch.randint(0, 2, (len(tokenizer), HIDDEN_SIZE)).float() * 2 - 1
        model.model.embed_tokens.weight.copy_(directions)
        model.lm_head.weight.zero_()
        for last, following in steps():
            row = tokenizer.convert_tokens_to_ids(following)
            model.lm_head.weight[row] += directions[tokenizer.convert_tokens_to_ids(last)] * CERTAINTY / HIDDEN_SIZE
    return model


def main(folder: str) -> None:
    """Saves the tokenizer and the model into the folder, which is made when it does not exist."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    tokenizer = make_tokenizer()
    tokenizer.save_pretrained(folder)
    make_model(tokenizer).save_pretrained(folder)


if __name__ == "__main__":
    main(sys.argv[1])
