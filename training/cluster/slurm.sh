#!/bin/bash
# Train on several hosts of a SLURM cluster:
#   sbatch --nodes=2 training/cluster/slurm.sh RECIPE.yaml run=/shared/run
# The run folder must be on storage that all hosts share. PORT must be free on each host and closed
# to other networks. To resume from the last checkpoint, submit the same command again.
#SBATCH --job-name=attention-zoo
#SBATCH --ntasks-per-node=1
#SBATCH --signal=TERM@60
set -euo pipefail

export PORT=${PORT:-12345}
HOSTS=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | tr '\n' ' ')
export HOSTS

# Print TF_CONFIG of this SLURM task: the addresses of all workers, and the task's own index.
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
