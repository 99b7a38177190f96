"""What a job costs on the device: one small file per cost model."""
