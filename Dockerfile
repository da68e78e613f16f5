# The studio on CPUs, from a checkout: see docs/docker.md.
FROM python:3.11.13-slim-bookworm AS build
WORKDIR /source
COPY constraints.txt pyproject.toml README.md LICENSE ./
COPY visual_dynamics ./visual_dynamics
# torch without gigabytes for GPUs has an index of its own; what torch needs comes from the usual one.
RUN python -m venv /opt/venv \
    && /opt/venv/bin/pip install --no-cache-dir --no-deps --index-url https://download.pytorch.org/whl/cpu torch==2.13.0+cpu \
    && /opt/venv/bin/pip install --no-cache-dir -c constraints.txt '.[studio]'

FROM python:3.11.13-slim-bookworm
COPY --from=build /opt/venv /opt/venv
RUN useradd --create-home --uid 1000 studio \
    && install --directory --owner=studio --group=studio /data
ENV PATH=/opt/venv/bin:$PATH PYTHONUNBUFFERED=1
USER studio
WORKDIR /data
VOLUME ["/data"]
EXPOSE 8200
# Any answer is a sign of life: without the token it is 401.
HEALTHCHECK --interval=30s --timeout=10s --start-period=60s CMD ["python", "-c", "import http.client as http; it = http.HTTPConnection('127.0.0.1', 8200, timeout=5); it.request('GET', '/'); raise SystemExit(it.getresponse().status >= 500)"]
ENTRYPOINT ["visual-dynamics"]
CMD ["studio", "--host", "0.0.0.0", "--store", "/data"]
