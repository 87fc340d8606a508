import { expect } from 'vitest';
import { send, track } from '../support/calls.ts';
import { makePlace, type Program, startProgram } from '../support/program.ts';
import { startReceiver, type TestReceiver } from '../support/receiver.ts';
import { until, within } from '../support/until.ts';

const TOKEN = 'token-of-the-tests';

/** The user that is erased. */
export const USER = 'erased-7f3a';

/** Events of that user in one call. */
export const EVENTS = 60;

export interface Receipt {
  readonly id: string;
  readonly overallStatus: string;
  readonly createdAt: string;
  readonly finishedAt?: string;
  readonly erased: { readonly events: number };
}

/** Nodes on one database, their customer's endpoint, and the deletion of a user. */
export class ErasingNodes {
  readonly crm: TestReceiver;
  readonly nodes: Program[] = [];
  readonly #database: string;
  readonly #place: ReturnType<typeof makePlace>;

  private constructor(database: string, crm: TestReceiver) {
    this.#database = database;
    this.crm = crm;
    const settings = { endpoints: [{ url: crm.url }] };
    this.#place = makePlace(
      JSON.stringify({
        log: 'debug',
        egress: { allow: ['127.0.0.0/8'] },
        sources: [{ name: 'website', writeKeys: ['wk'] }],
        destinations: [{ name: 'crm', type: 'webhooks', sources: ['website'], settings }],
      }),
    );
  }

  /** The first of the nodes has the job of the deletion. */
  static async start(database: string, names: readonly string[]): Promise<ErasingNodes> {
    const erasing = new ErasingNodes(database, await startReceiver());
    try {
      for (const name of names) await erasing.#start(name);
      return erasing;
    } catch (error) {
      await erasing.stop();
      throw error;
    }
  }

  async #start(node: string): Promise<void> {
    const { config, data } = this.#place;
    const args = ['start', '--config', config, '--data', `${data}-${node}`, '--port', '0'];
    const env = { MILLRACE_DATABASE: this.#database, MILLRACE_NODE: node, MILLRACE_ADMIN_TOKEN: TOKEN };
    const program = await startProgram({ args: [...args, '--host', '127.0.0.1'], env });
    this.nodes.push(program);
    if (this.nodes.length > 1) return;
    const hasJob = program.saw(/"job":"users".*"job\.begun"|"job\.begun".*"job":"users"/);
    await within('the first node has the job of deletions', hasJob);
  }

  async stop(): Promise<void> {
    for (const node of this.nodes) await node.kill();
    await this.crm.stop();
    this.#place.remove();
  }

  /** Sends events of the user until the node takes them: it may have lost its lease while it stood still. */
  async call({ url }: Program, mark: string): Promise<void> {
    const batch = Array.from({ length: EVENTS }, (_, n) => track(`${mark}-${n}`, { userId: USER }));
    await until('the node takes the call', async () =>
      expect((await send(url, '/v1/batch', { batch }, { writeKey: 'wk' })).status).toBe(200),
    );
  }

  async ask<Answer>({ url }: Program, path: string, body?: object): Promise<Answer> {
    const response = await fetch(`${url}/api/v1/${path}`, {
      method: body === undefined ? 'GET' : 'POST',
      headers: { authorization: `Bearer ${TOKEN}` },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    return (await response.json()) as Answer;
  }

  /** Asks a node for a regulation of the user. Resolves to its id. */
  async erase(node: Program, type: string): Promise<string> {
    return (await this.ask<Receipt>(node, 'regulations', { type, subjectIds: [USER] })).id;
  }

  /** Resolves when the deletion has ended. */
  async receipt(node: Program, id: string): Promise<Receipt> {
    return await until('the deletion has ended', async () => {
      const found = await this.ask<Receipt>(node, `regulations/${id}`);
      return found.finishedAt !== undefined && found;
    });
  }
}
