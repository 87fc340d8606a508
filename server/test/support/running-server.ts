import { afterEach } from 'vitest';
import {
  startTestServer,
  type TestConnection,
  type TestServer,
  type TestServerOptions,
} from './http-server.ts';

/** Starts the servers of a file's tests, and stops the server of each test behind it. */
export interface RunningServer {
  /** The server of the test that runs now. Throws while none is started. */
  readonly now: TestServer;
  listen(options?: TestServerOptions): Promise<TestServer>;
  /** Starts a server and connects to it. */
  start(options?: TestServerOptions): Promise<TestConnection>;
}

/** A server for each test of the file that calls it. */
export function runningServer(): RunningServer {
  let running: TestServer | undefined;
  const listen = async (options?: TestServerOptions) => {
    running = await startTestServer(options);
    return running;
  };
  afterEach(async () => {
    await running?.listener.stop();
    running = undefined;
  });
  return {
    listen,
    start: async (options) => (await listen(options)).connect(),
    get now() {
      if (running === undefined) throw new Error('The test has started no server.');
      return running;
    },
  };
}
