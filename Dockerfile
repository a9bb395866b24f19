# A GPU machine: docker build -t contrastive . && docker run --gpus all -v $PWD/outputs:/app/outputs -v $PWD/data:/app/data contrastive loss=debiased_pos
FROM python:3.12-slim
# a run records its commit
RUN apt-get update && apt-get install -y --no-install-recommends git && rm -rf /var/lib/apt/lists/*
WORKDIR /app
COPY . .
RUN pip install --no-cache-dir -c constraints.txt '.[report]'
ENTRYPOINT ["python", "train.py"]
