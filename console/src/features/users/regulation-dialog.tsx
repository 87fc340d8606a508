import { useNavigate } from '@tanstack/react-router';
import { useState } from 'react';
import { Field, Select } from '../../ui/controls.tsx';
import { ConfirmDialog } from '../../ui/dialog.tsx';
import { Notice } from '../../ui/empty-state.tsx';
import { plural } from '../../ui/format.ts';
import { toast } from '../../ui/toast.tsx';
import { type RegulationType, useRegulate } from './queries.ts';
import { isErasing, titleOf } from './receipt.ts';
import { subjectsOf } from './subjects.ts';

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

/** Deletes users, suppresses them, or ends it. Deleting cannot be taken back, so that something must be typed for it. */
export function RegulationDialog({ initialIds, initialType, onClose }: RegulationDialogProps) {
  const [type, setType] = useState<RegulationType>(initialType ?? 'SUPPRESS_WITH_DELETE');
  const [text, setText] = useState(initialIds.join('\n'));
  const regulate = useRegulate();
  const navigate = useNavigate();
  const ids = subjectsOf(text);
  const [first = ''] = ids;
  const title = titleOf({ type, subjects: ids.length });
  return (
    <ConfirmDialog
      title={title}
      action={title}
      // One user by its id; of many nobody would type all.
      typed={ids.length === 1 ? first : plural(ids.length, 'user')}
      isDangerous={type !== 'UNSUPPRESS'}
      onConfirm={async () => {
        const { id } = await regulate.mutateAsync({ type, subjectIds: ids });
        toast(`${title}: under way.`);
        await navigate({ to: '/users/deletions/$id', params: { id } });
      }}
      onClose={onClose}
    >
      <div className="stack-s">
        <Field label="What is to be done">
          {(control) => (
            <Select
              {...control}
              value={type}
              options={TYPES}
              onChange={(value) => setType(value as RegulationType)}
            />
          )}
        </Field>
        <Field label="UserIds, one a line" hint="5,000 at most.">
          {(control) => (
            <textarea
              {...control}
              className="area"
              rows={Math.min(6, Math.max(2, ids.length + 1))}
              spellCheck={false}
              value={text}
              onChange={({ target }) => setText(target.value)}
            />
          )}
        </Field>
        {isErasing(type) && (
          <Notice tone="warn">
            Every stored event of {plural(ids.length, 'user')} is erased, with what is owed of them, their
            dead letters, profiles and memberships. Every destination of their sources is told. This cannot be
            taken back; a receipt stays.
          </Notice>
        )}
      </div>
    </ConfirmDialog>
  );
}
