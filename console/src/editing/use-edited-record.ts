import { useQuery, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import type { Tagged } from '../api/client.ts';
import {
  isOvertaken,
  type RecordList,
  type RecordOf,
  type RecordPatch,
  recordQuery,
  useRecordChanges,
} from '../api/records.ts';
import { hasFieldsOf, type KeptForm, keepForm, keptForm } from './drafts.ts';
import { changedFields, type Fields, isSame, mergeFields, type Versions } from './fields.ts';
import type { Restored } from './use-kept-form.ts';

/** The form of a kind of record. */
export interface RecordForm<List extends RecordList, Draft extends Fields> {
  readonly list: List;
  /** The fields of a record that the form edits. */
  readonly draftOf: (record: RecordOf<List>) => Draft;
  /**
   * The merge patch with what was changed: the rest of the record stays as it is, whoever changes it
   * meanwhile.
   */
  readonly patchOf: (base: Draft, draft: Draft) => RecordPatch;
  /** The draft with the stored value in place of each typed secret. Default: the draft, without secrets. */
  readonly withoutSecrets?: (draft: Draft, base: Draft) => Draft;
}

export interface EditedRecord<Draft extends Fields> {
  /** The stored values when the form was filled. */
  readonly base: Draft;
  readonly draft: Draft;
  readonly isChanged: boolean;
  /** Present when the form was left unfinished before. */
  readonly restored?: Restored;
  /** Present while a change of somebody else to these fields is not merged yet. */
  readonly overtaken?: Versions<Draft>;
  put(draft: Draft): void;
  /** Fills the form with the stored values, or continues from there with this draft. */
  restart(draft?: Draft): void;
  /** Rejects with the server's faults; with status 412 when somebody else has changed a field of the form. */
  save(): Promise<void>;
}

/** A form that was filled from a record. */
interface Edit<Draft extends Fields> {
  /** Tag of the record from which the form was filled. */
  readonly tag: string;
  readonly base: Draft;
  readonly draft: Draft;
}

/**
 * The form of a stored record. Until something is typed it follows the record. After that, a change of
 * somebody else to one of its fields has to be merged by the person, and nothing is saved over it unseen;
 * changes of other fields do not matter. Unsaved input is kept in this tab.
 */
export function useEditedRecord<List extends RecordList, Draft extends Fields>(
  { list, draftOf, patchOf, withoutSecrets = (draft) => draft }: RecordForm<List, Draft>,
  read: Tagged<RecordOf<List>>,
): EditedRecord<Draft> {
  const { name } = read.record;
  const client = useQueryClient();
  const { data: stored = read } = useQuery(recordQuery(list, name));
  const changes = useRecordChanges(list, name);
  const filled = ({ tag, record }: Tagged<RecordOf<List>>): Edit<Draft> => {
    const draft = draftOf(record);
    return { tag, base: draft, draft };
  };
  const key = `${list}/${name}`;
  const [kept] = useState(() => keptEdit(key, filled(stored)));
  const [edit, setEdit] = useState(kept?.form ?? filled(stored));
  const [isRestored, setIsRestored] = useState(kept !== undefined);
  const now = followed(edit, filled(stored));
  // While it is drawn, so that what was read before is never seen beside what is new.
  if (now !== undefined && now !== edit) setEdit(now);
  const { base, draft } = now ?? edit;

  const put = (next: Edit<Draft>): void => {
    const isTouched = changedFields(next.base, next.draft).length > 0;
    const plain = { ...next, draft: withoutSecrets(next.draft, next.base) };
    keepForm(key, isTouched ? { form: plain, lacksSecrets: !isSame(plain, next) } : undefined);
    if (!isTouched) setIsRestored(false);
    setEdit(next);
  };
  const save = async (): Promise<void> => {
    let from = now ?? edit;
    for (;;) {
      try {
        put(filled(await changes.change(from.tag, patchOf(from.base, from.draft))));
        return;
      } catch (error) {
        const newest = client.getQueryData(recordQuery(list, name).queryKey);
        const next = isOvertaken(error) && newest !== undefined ? followed(from, filled(newest)) : undefined;
        if (next === undefined || next.tag === from.tag) throw error;
        from = next;
      }
    }
  };
  return {
    base,
    draft,
    isChanged: changedFields(base, draft).length > 0,
    ...(now === undefined ? { overtaken: { base, mine: draft, theirs: draftOf(stored.record) } } : {}),
    ...(isRestored && kept !== undefined ? { restored: { lacksSecrets: kept.lacksSecrets } } : {}),
    put: (next) => put({ ...(now ?? edit), draft: next }),
    restart: (next) => put({ ...filled(stored), ...(next === undefined ? {} : { draft: next }) }),
    save,
  };
}

function keptEdit<Draft extends Fields>(key: string, blank: Edit<Draft>): KeptForm<Edit<Draft>> | undefined {
  const kept = keptForm(key, blank);
  if (kept === undefined) return undefined;
  const { base, draft } = kept.form;
  return hasFieldsOf(base, blank.base) && hasFieldsOf(draft, blank.draft) ? kept : undefined;
}

/** The form after the record has changed; undefined when the person must merge both changes. */
function followed<Draft extends Fields>(
  edit: Edit<Draft>,
  { tag, base: theirs }: Edit<Draft>,
): Edit<Draft> | undefined {
  if (tag === edit.tag) return edit;
  const { base, draft } = edit;
  const merged = mergeFields({ base, mine: draft, theirs });
  const isTouched = changedFields(base, draft).length > 0;
  return isTouched && merged.news.length > 0 ? undefined : { tag, base: theirs, draft: merged.draft };
}
