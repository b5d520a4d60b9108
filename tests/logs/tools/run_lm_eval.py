"""Runs lm-evaluation-harness on four local documents with its dummy model, which always says "lol"."""
# mypy: ignore-errors

import json
import subprocess
import sys
from pathlib import Path

DOCUMENTS = [
    {"id": "a", "question": "What does one write when amused?", "answer": "lol"},
    {"id": "b", "question": "What is 2 + 3?", "answer": "5"},
    {"id": "c", "question": "What is 7 - 4?", "answer": "3"},
    {"id": "d", "question": "Which word is laughter?", "answer": "LOL"},
]
TASK = """
task: {name}
dataset_path: json
dataset_kwargs:
  data_files:
    test: data.jsonl
test_split: test
output_type: generate_until
repeats: {repeats}
doc_to_text: "Question: {{{{question}}}}\\nAnswer:"
doc_to_target: "{{{{answer}}}}"
generation_kwargs:
  until: ["\\n"]
  do_sample: true
  temperature: 0.7
metric_list:
  - metric: exact_match
    aggregation: mean
    higher_is_better: true
filter_list:
  - name: strict-match
    filter:
      - function: regex
        regex_pattern: "(\\\\w+)"
      - function: take_first
  - name: upper
    filter:
      - function: uppercase
      - function: take_first
"""
CHOICE = """
task: tiny_choice
dataset_path: json
dataset_kwargs:
  data_files:
    test: data.jsonl
test_split: test
output_type: multiple_choice
doc_to_text: "Question: {{question}}\\nAnswer:"
doc_to_target: "{{answer}}"
doc_to_choice: ["lol", "LOL", "3", "5"]
metric_list:
  - metric: acc
"""

Path("data.jsonl").write_text("".join(json.dumps(document) + "\n" for document in DOCUMENTS))
Path("one.yaml").write_text(TASK.format(name="tiny_one", repeats=1))
Path("four.yaml").write_text(TASK.format(name="tiny_four", repeats=4))
Path("choice.yaml").write_text(CHOICE)
command = "--model dummy --tasks tiny_one,tiny_four,tiny_choice --include_path . --log_samples --output_path out"
subprocess.run([Path(sys.executable).with_name("lm_eval"), *command.split()], check=True)
