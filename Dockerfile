# docker build -t contrastive . && docker run --gpus all -v $PWD/outputs:/app/outputs -v $PWD/data:/app/data contrastive train loss=debiased_pos
# Any command works, as `docker run -v $PWD/data:/app/data contrastive look data/photos`; without a GPU leave --gpus out.
FROM python:3.11-slim
# a run records its commit
RUN apt-get update && apt-get install -y --no-install-recommends git && rm -rf /var/lib/apt/lists/*
WORKDIR /app
COPY . .
# in place, so that the commit is found
RUN pip install --no-cache-dir -c constraints.txt -e '.[report,timm,export]'
ENTRYPOINT ["contrastive"]
