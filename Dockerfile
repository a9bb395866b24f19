# A GPU machine: docker build -t contrastive . && docker run --gpus all -v $PWD/outputs:/work/outputs -v $PWD/data:/work/data contrastive loss=debiased_pos
FROM python:3.12-slim
# a run records its commit
RUN apt-get update && apt-get install -y --no-install-recommends git && rm -rf /var/lib/apt/lists/*
WORKDIR /work
COPY . .
RUN pip install --no-cache-dir -c constraints.txt '.[report]'
ENTRYPOINT ["python", "train.py"]
