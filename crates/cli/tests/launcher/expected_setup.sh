#!/bin/bash

# Parameters
#SBATCH --array=0-1%2
#SBATCH --error=SWEEP/.submitit/%A_%a/%A_%a_0_log.err
#SBATCH --exclusive
#SBATCH --job-name=app
#SBATCH --mail-type=BEGIN
#SBATCH --nice=5
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --open-mode=truncate
#SBATCH --output=SWEEP/.submitit/%A_%a/%A_%a_0_log.out
#SBATCH --signal=USR2@120
#SBATCH --time=9
#SBATCH --wckey=submitit

# setup
module load cuda
export A=1

# command
export SUBMITIT_EXECUTOR=slurm
srun --unbuffered --output SWEEP/.submitit/%A_%a/%A_%a_%t_log.out --error SWEEP/.submitit/%A_%a/%A_%a_%t_log.err COMMAND
