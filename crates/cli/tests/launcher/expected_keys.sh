#!/bin/bash

# Parameters
#SBATCH --account=me
#SBATCH --array=0-1%1
#SBATCH --comment='a b'
#SBATCH --constraint=h200
#SBATCH --cpus-per-task=8
#SBATCH --error=SWEEP/.submitit/%A_%a/%A_%a_0_log.err
#SBATCH --exclude=n1
#SBATCH --gpus-per-node=2
#SBATCH --job-name='my job/x'
#SBATCH --mem=4GB
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --open-mode=append
#SBATCH --output=SWEEP/.submitit/%A_%a/%A_%a_0_log.out
#SBATCH --partition=gpu
#SBATCH --qos=high
#SBATCH --signal=USR2@30
#SBATCH --time=60
#SBATCH --wckey=submitit

# command
export SUBMITIT_EXECUTOR=slurm
srun --unbuffered --output SWEEP/.submitit/%A_%a/%A_%a_%t_log.out --error SWEEP/.submitit/%A_%a/%A_%a_%t_log.err COMMAND
