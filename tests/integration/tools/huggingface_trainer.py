"""The real Hugging Face Trainer on a tiny model: saves every so many seconds, keeps one checkpoint, goes on from
CLEAT_RESUME_DIR. Knows nothing of Cleat but that name.

usage: huggingface_trainer.py DIR SECONDS LOG      LOG gets a line for each event: "start STEP", "saved STEP", and when
"""

import os
import sys
import time

os.environ.update(HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false", CUDA_VISIBLE_DEVICES="", OMP_NUM_THREADS="1")

import torch  # noqa: E402
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments  # noqa: E402

directory, seconds, log = sys.argv[1], float(sys.argv[2]), sys.argv[3]


def tell(what, step):
    with open(log, "a", encoding="ascii") as file:
        file.write("%s %d %.3f\n" % (what, step, time.clock_gettime(time.CLOCK_MONOTONIC)))


class Pace(TrainerCallback):
    """Saves by the clock; time passes between steps, too."""

    def on_train_begin(self, args, state, control, **more):
        tell("start", state.global_step)
        self.saved = time.monotonic()

    def on_step_end(self, args, state, control, **more):
        time.sleep(0.05)
        control.should_save = time.monotonic() - self.saved >= seconds
        if control.should_save:
            self.saved = time.monotonic()

    def on_save(self, args, state, control, **more):
        tell("saved", state.global_step)


class Numbers(torch.utils.data.Dataset):
    def __len__(self):
        return 1 << 20

    def __getitem__(self, index):
        tokens = torch.arange(index, index + 16) % 128
        return {"input_ids": tokens, "labels": tokens}


torch.manual_seed(1)
model = GPT2LMHeadModel(GPT2Config(vocab_size=128, n_positions=16, n_embd=64, n_layer=2, n_head=2,
                                   bos_token_id=0, eos_token_id=0))
arguments = TrainingArguments(output_dir=directory, max_steps=1 << 20, per_device_train_batch_size=2,
                              save_total_limit=1, save_strategy="no", report_to=[], use_cpu=True, disable_tqdm=True,
                              logging_steps=1 << 20, ignore_data_skip=True, dataloader_num_workers=0)
trainer = Trainer(model=model, args=arguments, train_dataset=Numbers(), callbacks=[Pace()])
trainer.train(resume_from_checkpoint=os.environ.get("CLEAT_RESUME_DIR"))
