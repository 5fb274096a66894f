#!/bin/bash
# One training on several hosts of a SLURM cluster:
#   sbatch --nodes=2 training/cluster/slurm.sh RECIPE.yaml run=/shared/run
# All hosts must see the same run folder, and PORT must be free on each and closed to the outside.
# Whatever ended the job, submit the same command again: it goes on from the last checkpoint.
#SBATCH --job-name=attention-zoo
#SBATCH --ntasks-per-node=1
#SBATCH --signal=TERM@60
set -euo pipefail

export PORT=${PORT:-12345}
HOSTS=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | tr '\n' ' ')
export HOSTS

# What a task of the job is to TensorFlow: who all are, and which of them it is.
tf_config() {
    local host workers=""
    for host in $HOSTS; do
        workers+="${workers:+, }\"$host:$PORT\""
    done
    echo "{\"cluster\": {\"worker\": [$workers]}, \"task\": {\"type\": \"worker\", \"index\": $SLURM_PROCID}}"
}

train() {
    TF_CONFIG=$(tf_config)
    export TF_CONFIG
    exec attention-zoo train "$@"
}

export -f tf_config train
srun --kill-on-bad-exit=1 bash -c 'train "$@"' train "$@"
