#!/bin/sh
# A gpt2_train that loses its checkpoints when it ends, for which chaos.py must find words.
"$GPT2_TRAIN" "$@"
status=$?
rm -f out/state_*.bin
exit $status
