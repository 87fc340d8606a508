# Millrace as an image: `docker build --tag millrace .`, see docs/guide/production.md.
# server/test/packaging/ reads this file and runs what it says without an engine.

# What the program needs at run time, at the versions of the lock file.
FROM node:24.21.0-slim AS dependencies
WORKDIR /build
COPY package.json package-lock.json ./
COPY server/package.json server/
COPY cli/package.json cli/
COPY clients/typescript/package.json clients/typescript/
COPY console/package.json console/
COPY server/test/clients/package.json server/test/clients/
RUN npm ci --omit=dev --workspace=server --workspace=cli --ignore-scripts --no-audit --no-fund && \
    rm -r node_modules/millrace node_modules/@millrace

# The program, compiled, with the licences of what it needs and contains of others.
FROM node:24.21.0-slim AS program
WORKDIR /build
COPY package.json package-lock.json ./
COPY server/package.json server/
COPY cli/package.json cli/
COPY clients/typescript/package.json clients/typescript/
COPY console/package.json console/
COPY server/test/clients/package.json server/test/clients/
RUN npm ci --workspace=console --workspace=server --workspace=cli --include-workspace-root --ignore-scripts --no-audit --no-fund
COPY . .
RUN node tools/build.ts /build/dist

FROM node:24.21.0-slim
LABEL org.opencontainers.image.title="Millrace" \
      org.opencontainers.image.description="Event collection that anyone can run: calls in, signed webhooks out." \
      org.opencontainers.image.licenses="Apache-2.0"
ENV NODE_ENV=production \
    MILLRACE_DATA=/data \
    MILLRACE_PORT=8080
WORKDIR /app
COPY --from=dependencies /build/node_modules/ node_modules/
COPY --from=program /build/dist/ millrace/
RUN mkdir /data && chown 1000:1000 /data && ln -s /app/millrace/cli/bin/millrace.js /usr/local/bin/millrace
# The user `node` of the base image, as a number so that an orchestrator can see that it is not root.
USER 1000:1000
VOLUME /data
EXPOSE 8080
# Alive, not ready: a server whose disk is full is not mended by being restarted. Behind `tls` set another check.
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=3 \
  CMD ["node", "-e", "fetch(`http://127.0.0.1:${process.env.MILLRACE_PORT}/healthz`).then(({ ok }) => process.exit(ok ? 0 : 1), () => process.exit(1))"]
# Answers what was received and writes down what was delivered: give it 30 seconds (`docker stop --time 30`).
STOPSIGNAL SIGTERM
# The program takes signals itself and starts no processes, so it needs no init in front of it. An event's objects live for milliseconds, and
# the 128 MB that Node lets the space for new ones grow to under load are more than they need.
ENTRYPOINT ["node", "--max-semi-space-size=16", "/app/millrace/cli/bin/millrace.js"]
CMD ["start"]
