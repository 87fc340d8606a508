import { randomUUID } from 'node:crypto';
import type { Computation } from '../model/definition.ts';
import type { Json } from '../model/json.ts';
import type { ComputationStatus, Preview } from '../ports/users.ts';
import { MembershipSync } from './membership-sync.ts';
import type { ProfileComputations, RestoreTerms } from './profile-computations.ts';
import type { Slice } from './slice.ts';
import { createTraitEngine, type TraitEngine } from './trait-engine.ts';

/** The document that keeps numbers of slots and of members. */
const DOCUMENT = 'live-computations';

interface Kept {
  readonly [name: string]: Json;
  readonly lineage: string;
  readonly slots: Readonly<Record<string, number>>;
  readonly members: Readonly<Record<string, number>>;
}

/** Computes definitions from the events that arrive, without those that are stored already. */
export class LiveComputations implements ProfileComputations {
  engine: TraitEngine = createTraitEngine([], () => 0);
  sync = new MembershipSync({ lineage: '', isSynced: () => true });
  #definitions: readonly Computation[] = [];
  #lineage = '';
  #slots: Record<string, number> = {};
  #stored = '';

  async restore(definitions: readonly Computation[], { store }: RestoreTerms): Promise<void> {
    const kept = (await store.document(DOCUMENT)) as Kept | undefined;
    this.#stored = JSON.stringify(kept);
    this.#lineage = kept?.lineage ?? randomUUID().slice(0, 8);
    this.#slots = { ...kept?.slots };
    this.#definitions = definitions;
    this.sync = new MembershipSync({
      lineage: this.#lineage,
      isSynced: () => true,
      members: kept?.members ?? {},
    });
    this.sync.configure(definitions);
    this.engine = createTraitEngine(definitions, (key) => {
      this.#slots[key] ??= Math.max(0, ...Object.values(this.#slots)) + 1;
      return this.#slots[key];
    });
  }

  async step(slice: Slice) {
    const members = this.sync.members();
    const kept: Kept = { lineage: this.#lineage, slots: this.#slots, members };
    const text = JSON.stringify(kept);
    if (text !== this.#stored) slice.document(DOCUMENT, kept);
    this.#stored = text;
    return { done: 0, hasMore: false };
  }

  statuses(): ComputationStatus[] {
    const members = this.sync.members();
    return this.#definitions.map(({ id, enabled }) => ({
      id,
      state: enabled ? 'live' : 'disabled',
      members: members[id] ?? 0,
      progress: 1,
    }));
  }

  async preview(): Promise<Preview> {
    return { members: 0, sample: [], enters: 0, leaves: 0 };
  }
}
