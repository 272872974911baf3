#!/bin/bash

# Parameters
#SBATCH --error=SWEEP/.submitit/%j/%j_0_log.err
#SBATCH --job-name=app
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --open-mode=append
#SBATCH --output=SWEEP/.submitit/%j/%j_0_log.out
#SBATCH --signal=USR2@120
#SBATCH --time=60
#SBATCH --wckey=submitit

# command
export SUBMITIT_EXECUTOR=slurm
srun --unbuffered --output SWEEP/.submitit/%j/%j_%t_log.out --error SWEEP/.submitit/%j/%j_%t_log.err COMMAND
