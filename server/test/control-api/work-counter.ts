import { Session } from 'node:inspector/promises';

/**
 * Counts the work of this process: calls of functions of any script, as the engine counts them. It is the
 * same however busy the machine is. Loops without calls in them and built-in functions are not seen.
 */
export class WorkCounter {
  readonly #session = new Session();

  async start(): Promise<void> {
    this.#session.connect();
    await this.#session.post('Profiler.enable');
    await this.#session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: false });
  }

  /** Calls since the last time. */
  async take(): Promise<number> {
    const { result } = await this.#session.post('Profiler.takePreciseCoverage');
    let calls = 0;
    for (const { functions } of result) {
      for (const { ranges } of functions) calls += ranges[0]?.count ?? 0;
    }
    return calls;
  }

  async stop(): Promise<void> {
    await this.#session.post('Profiler.stopPreciseCoverage');
    await this.#session.post('Profiler.disable');
    this.#session.disconnect();
  }
}
