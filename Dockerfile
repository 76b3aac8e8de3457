# One image for every process: workers, beat, Flower and the zeph command. Nothing in it can be written to.
FROM python:3.11-slim-bookworm AS build
WORKDIR /src
RUN python -m venv /opt/zeph
COPY requirements-image.lock .
RUN /opt/zeph/bin/pip install --no-cache-dir --disable-pip-version-check --require-hashes -r requirements-image.lock
COPY pyproject.toml README.md LICENSE CHANGELOG.md ./
COPY alembic alembic
COPY services services
COPY workers workers
RUN /opt/zeph/bin/pip install --no-cache-dir --disable-pip-version-check --no-deps --no-build-isolation .

FROM python:3.11-slim-bookworm
# The folder of the shared volume: a new volume takes over its owner.
RUN useradd --uid 10001 --no-create-home --shell /usr/sbin/nologin zeph \
    && install -d -o zeph -g zeph -m 0700 /data
COPY --from=build /opt/zeph /opt/zeph
ENV PATH=/opt/zeph/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 ZEPH_DATA_DIR=/data HOME=/tmp
WORKDIR /data
USER 10001:10001
ENTRYPOINT ["/opt/zeph/bin/zeph"]
CMD ["--help"]
