#!/bin/bash

# Parameters
#SBATCH --array=0-2%3
#SBATCH --cpus-per-gpu=4
#SBATCH --gpus-per-task=1
#SBATCH --gres=gpu:h200:1
#SBATCH --job-name=app
#SBATCH --mem-per-cpu=2G
#SBATCH --mem-per-gpu=10G
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --open-mode=append
#SBATCH --output=SWEEP/.submitit/%A_%a/%A_%a_0_log.out
#SBATCH --signal=USR2@120
#SBATCH --time=60
#SBATCH --wckey=submitit

# command
export SUBMITIT_EXECUTOR=slurm
srun --unbuffered --output SWEEP/.submitit/%A_%a/%A_%a_%t_log.out COMMAND
