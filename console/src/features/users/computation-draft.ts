import type { RecordPatch } from '../../api/records.ts';
import { changedFields } from '../../editing/fields.ts';
import type { FieldLabels } from '../../editing/overtaken.tsx';
import type { RecordForm } from '../../editing/use-edited-record.ts';
import { type DefinitionDraft, definitionDraftOf, definitionOf } from './definition-draft.ts';
import type { Computation, Kind } from './queries.ts';

/** The form of an audience or a computed trait. */
export interface ComputationDraft {
  /** Name, which cannot be changed later. */
  readonly name: string;
  readonly definition: DefinitionDraft;
  /** Only for audiences. */
  readonly includeAnonymous: boolean;
  readonly destinations: readonly string[];
}

/** Computed traits have no builder: most of them are a value, and no condition. */
export function hasBuilder(kind: Kind): boolean {
  return kind === 'audiences';
}

export function newComputation(kind: Kind): ComputationDraft {
  const definition = definitionDraftOf(undefined, hasBuilder(kind));
  return { name: '', definition, includeAnonymous: false, destinations: [] };
}

/** The body that creates it. */
export function creationOf(kind: Kind, draft: ComputationDraft): RecordPatch {
  return { name: draft.name.trim(), ...bodyOf(kind, draft) };
}

function bodyOf(kind: Kind, { definition, includeAnonymous, destinations }: ComputationDraft): RecordPatch {
  const own = kind === 'audiences' ? { includeAnonymous } : {};
  return { definition: definitionOf(definition), ...own, destinations };
}

const formOf = (list: Kind): RecordForm<Kind, ComputationDraft> => ({
  list,
  draftOf: (record: Computation) => ({
    name: record.name,
    definition: definitionDraftOf(record, hasBuilder(list)),
    includeAnonymous: record.includeAnonymous ?? false,
    destinations: record.destinations,
  }),
  patchOf: (base, draft) => {
    const wanted = bodyOf(list, draft);
    return Object.fromEntries(changedFields(base, draft).map((name) => [name, wanted[name]]));
  },
});

export const COMPUTATION_FORMS = { audiences: formOf('audiences'), traits: formOf('traits') } as const;

export const COMPUTATION_LABELS: FieldLabels<ComputationDraft> = {
  name: 'Name',
  definition: 'Definition',
  includeAnonymous: 'Users without a userId may be members',
  destinations: 'Destinations that are told',
};
