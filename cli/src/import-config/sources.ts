import { recordFaults } from '@millrace/server/config';
import { Names } from './names.ts';
import { PRODUCT } from './product.ts';
import type { Translation, WrittenRecord } from './translation.ts';
import type { ExportedSource, Workspace } from './workspace.ts';

/** The records of sources by their ids there. Sources that are not taken are absent. */
export type SourceNames = ReadonlyMap<string, string>;

/** Makes a record of each source that clients send to. */
export function translateSources({ sources, origin }: Workspace, translation: Translation): SourceNames {
  const names = new Names(PRODUCT.sourceNames);
  const keys = new Set<string>();
  const known = new Map<string, string>();
  for (const source of sources) {
    const { isCloud, id } = source;
    if (isCloud) {
      const reasons = ['a source in the cloud: nobody sends calls with a key of its own'];
      translation.tell('source', source, 'not', { reasons });
      continue;
    }
    const name = names.give(source.name ?? '', `Source ${id}`);
    if (!known.has(id)) known.set(id, name);
    translateSource(source, { name, keys, isSegment: origin === 'segment' }, translation);
  }
  return known;
}

interface Wanted {
  readonly name: string;
  /** Write keys of the sources before. */
  readonly keys: Set<string>;
  readonly isSegment: boolean;
}

function translateSource(
  source: ExportedSource,
  { name, keys, isSegment }: Wanted,
  translation: Translation,
): void {
  const notes: string[] = [];
  const losses: string[] = [];
  const writeKeys = usableKeys(source, keys, losses);
  const missing = writeKeys.length === 0 ? keyAskedFor(source, name, translation, losses) : undefined;
  const { trust = 'client', kind, projectId, enabled, blocks } = source;
  if (!enabled) notes.push('disabled there, disabled here');
  if (source.trust === undefined) {
    notes.push(
      `its kind ${kind === undefined ? 'is not in this export' : `${kind} is not known here`}: trust is client, which is the safe side`,
    );
    translation.asked.push({
      text: `trust of the source ${JSON.stringify(name)}: make it server in the file if only programs of yours have its write keys`,
    });
  }
  if (blocks !== undefined)
    losses.push(`${blocks} blocks some of its events there, and nothing does here: its destinations are off`);
  const record: WrittenRecord = {
    name,
    writeKeys: missing === undefined ? writeKeys : [{ ...missing }],
    enabled,
    mode: 'standard',
    whenDisabled: 'refuse',
    ip: 'keep',
    trust,
    // Receivers know events by the id of their source.
    ...(isSegment && projectId !== undefined && /^[!-~]{1,100}$/.test(projectId) ? { projectId } : {}),
  };
  translation.records.push({ list: 'sources', record });
  const reasons = [...losses, ...notes];
  translation.tell('source', source, losses.length > 0 ? 'partly' : 'taken', { reasons, as: name });
}

/** Keys that no source before has, and that are keys. */
function usableKeys({ writeKeys = [] }: ExportedSource, taken: Set<string>, losses: string[]): string[] {
  const found: string[] = [];
  for (const key of writeKeys) {
    const [fault] = recordFaults('source', { name: 'name', writeKeys: [key] });
    if (fault !== undefined) losses.push(`a write key ${fault.message}`);
    else if (taken.has(key)) losses.push('a write key is also one of another source');
    else if (found.length >= PRODUCT.maxRecords) losses.push(`more than ${PRODUCT.maxRecords} write keys`);
    else {
      taken.add(key);
      found.push(key);
    }
  }
  return found;
}

function keyAskedFor(source: ExportedSource, name: string, translation: Translation, losses: string[]) {
  const text = `a write key of the source ${JSON.stringify(name)} (${source.id})`;
  const { value, isAnswered } = translation.ask(name, 'WRITE_KEY', text);
  if (!isAnswered)
    losses.push(`its write keys are not in the export: the file reads one from ${value.variable}`);
  return value;
}
