import { useNavigate } from '@tanstack/react-router';
import { useRef } from 'react';
import { useKeptForm } from '../../editing/use-kept-form.ts';
import { Field, Select } from '../../ui/controls.tsx';
import { ConfirmDialog } from '../../ui/dialog.tsx';
import { Notice } from '../../ui/empty-state.tsx';
import { plural } from '../../ui/format.ts';
import { JsonSwitch } from '../../ui/json-switch.tsx';
import { toast } from '../../ui/toast.tsx';
import { type RegulationType, useRegulate } from './queries.ts';
import { isErasing, titleOf } from './receipt.ts';
import { confirmationOf, type SubjectText, subjectsOf, textOf } from './subjects.ts';

const TYPES: readonly { readonly value: RegulationType; readonly label: string }[] = [
  { value: 'SUPPRESS_WITH_DELETE', label: 'Delete, and store nothing new of them' },
  { value: 'DELETE_ONLY', label: 'Delete; new calls are stored again' },
  { value: 'SUPPRESS_ONLY', label: 'Store nothing new; what is stored stays' },
  { value: 'UNSUPPRESS', label: 'End a suppression' },
];

interface RegulationDialogProps {
  readonly initialIds: readonly string[];
  readonly initialType?: RegulationType;
  readonly onClose: () => void;
}

/** What is to be done to whom, as it stands in the dialog. */
interface RegulationDraft extends SubjectText {
  readonly type: RegulationType;
}

function draftFor({
  initialIds,
  initialType = 'SUPPRESS_WITH_DELETE',
}: RegulationDialogProps): RegulationDraft {
  return { type: initialType, ...textOf(initialIds) };
}

/** Deletes users, suppresses them, or ends it. Deleting cannot be taken back, so that something must be typed for it. */
export function RegulationDialog(props: RegulationDialogProps) {
  const blank = draftFor(props);
  const key = `regulations?${blank.type} ${blank.text}`;
  const { draft, put, forget } = useKeptForm<RegulationDraft>({ key, blank });
  const regulate = useRegulate();
  const navigate = useNavigate();
  const isDone = useRef(false);
  const { type } = draft;
  const { ids, mistake } = subjectsOf(draft);
  const [first = ''] = ids;
  const title = titleOf({ type, subjects: ids.length });
  return (
    <ConfirmDialog
      title={title}
      action={title}
      // One user by its id; of many nobody would type all.
      typed={ids.length === 1 ? confirmationOf(first) : plural(ids.length, 'user')}
      isDangerous={type !== 'UNSUPPRESS'}
      isReady={ids.length > 0}
      onConfirm={async () => {
        const { id } = await regulate.mutateAsync({ type, subjectIds: [...ids] });
        forget();
        // The receipt takes the place of the page that the dialog is on.
        isDone.current = true;
        toast(`${title}: under way.`);
        await navigate({ to: '/users/deletions/$id', params: { id } });
      }}
      onClose={() => {
        forget();
        if (!isDone.current) props.onClose();
      }}
    >
      <div className="stack-s">
        <Field label="What is to be done">
          {(control) => (
            <Select
              {...control}
              value={type}
              options={TYPES}
              onChange={(value) => put({ ...draft, type: value as RegulationType })}
            />
          )}
        </Field>
        <Field label="UserIds, one a line" hint="5,000 at most, taken as they are." error={mistake}>
          {(control) => (
            <textarea
              {...control}
              className="area"
              rows={Math.min(6, Math.max(2, ids.length + 1))}
              spellCheck={false}
              value={draft.text}
              onChange={({ target }) => put({ ...draft, text: target.value })}
            />
          )}
        </Field>
        <JsonSwitch isJson={draft.isJson} onChange={(isJson) => put({ ...draft, isJson })} />
        {isErasing(type) && <ErasingNotice count={ids.length} />}
      </div>
    </ConfirmDialog>
  );
}

function ErasingNotice({ count }: { readonly count: number }) {
  return (
    <Notice tone="warn">
      Every stored event of {plural(count, 'user')} is erased, with what is owed of them, their dead letters,
      profiles and memberships. Every destination of their sources is told. This cannot be taken back; a
      receipt stays.
    </Notice>
  );
}
