# The core, as a user without rights. `docker run --rm -v "$PWD:/data" threea release table.csv --target y --epsilon 1 --out release`
FROM python:3.11-slim
COPY . /src
RUN pip install --no-cache-dir --constraint /src/constraints.txt /src && rm -rf /src && useradd --create-home threea
USER threea
WORKDIR /data
ENTRYPOINT ["threea"]
CMD ["--help"]
