#!/bin/bash

# Parameters
#SBATCH --array=0-2%3
#SBATCH --error=SWEEP/.submitit/%A_%a/%A_%a_0_log.err
#SBATCH --job-name=app
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --open-mode=append
#SBATCH --output=SWEEP/.submitit/%A_%a/%A_%a_0_log.out
#SBATCH --signal=USR2@120
#SBATCH --time=5
#SBATCH --wckey=submitit

# command
export SUBMITIT_EXECUTOR=slurm
srun --unbuffered --output SWEEP/.submitit/%A_%a/%A_%a_%t_log.out --error SWEEP/.submitit/%A_%a/%A_%a_%t_log.err COMMAND
