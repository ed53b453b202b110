#!/bin/sh
# From nothing to a model that speaks the format, in about two minutes of training on two cores: made-up episodes of the five
# phases, checked, prepared on a vocabulary learnt from them, trained on; then the model answers, calls tools, and chats.
#
#   sh examples/end_to_end.sh [DIR] [STEPS]        DIR is made, and must be new; the default is a folder for temporary files
set -eu

here=$(cd "$(dirname "$0")" && pwd)
out=${1:-$(mktemp -d)/end_to_end}
steps=${2:-240}
mkdir -p "$out"
cd "$out"

echo "== synth: episodes of five phases, and some whose prompts are held out"
for phase in 1 2 3 4 5; do
    mypt-synth --phase $phase -n 4000 --seed 1 -o phase$phase.jsonl
    mypt-synth --phase $phase -n 40 --seed 1 --split heldout -o heldout$phase.jsonl
done

echo "== lint: every rule, every phase"
for phase in 1 2 3 4 5; do
    mypt-lint --phase $phase --fail-on info phase$phase.jsonl heldout$phase.jsonl
done

echo "== prepare: a small vocabulary, exact masks, packed rows"
mypt-vocab phase?.jsonl --size 1004 -o small.tiktoken
mypt-prepare phase?.jsonl --vocab small.tiktoken --context-length 512 --out train
mypt-prepare heldout?.jsonl --vocab small.tiktoken --context-length 512 --val-fraction 1 --out heldout
mypt-lint train heldout

echo "== train: $steps steps"
mypt-train --data train --data heldout --config tiny --out run --set train.steps="$steps" --set train.legality_every=0 \
    --set train.legality_prompts=40 --tools "$here/tools.json" > trained.json

echo "== generate: a held-out prompt, and a call of a tool"
head -n 1 heldout3.jsonl | python3 -c 'import json, sys; r = json.load(sys.stdin); r["messages"] = r["messages"][:1]; print(json.dumps(r))' > question.json
mypt-generate --model run --prompt question.json --max-new-tokens 80 --temperature 0
head -n 1 heldout5.jsonl | python3 -c 'import json, sys; r = json.load(sys.stdin); r["messages"] = r["messages"][:1]; print(json.dumps(r))' > call.json
mypt-generate --model run --prompt call.json --tools "$here/tools.json" --max-new-tokens 120 --temperature 0

echo "== chat: over a workspace, with its tools"
mkdir -p workspace
printf 'Crane Rules\n\nThe crane is open from 8 to 16.\n' > workspace/crane-rules.md
printf 'When does the crane open?\nThank you, says Anna.\n' | mypt-chat --model run --workspace workspace --max-tokens 160 --transcript chats.jsonl --seed 1 --temperature 0
mypt-lint chats.jsonl

echo "== export: for transformers"
mypt-export run --out exported
echo "done: $out"
