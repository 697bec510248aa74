/* test_s3_xml.c: storage/s3/xml.c and base/xml_reader.c. One thread; frees what it takes.
 * The replies are in the form of the Amazon S3 API reference and of MinIO. */
#include "storage/s3/xml.h"

#include "base/mem.h"
#include "tests/mock/each_fault.h"
#include "tests/mock/run_suite.h"

#include <check.h>
#include <string.h>

#define HEAD "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
#define NS " xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\""

static struct cleat_error err;

static void setup(void) {
  memset(&err, 0, sizeof err);
}

/* ---- Error ---- */

static cleat_status read_error(const char *xml, struct cleat__s3_reply_error *reply) {
  return cleat__s3_xml_error(xml, strlen(xml), reply, &err);
}

START_TEST(an_error_is_read) {
  struct cleat__s3_reply_error reply;
  ck_assert_int_eq(read_error(HEAD "<Error><Code>NoSuchBucket</Code><Message>The bucket\ndoes &lt;not&gt; "
                                   "exist</Message><BucketName>b</BucketName><RequestId>4442587FB7D0A2F9"
                                   "</RequestId><HostId>x</HostId></Error>",
                              &reply),
                   CLEAT_OK);
  ck_assert_str_eq(reply.code, "NoSuchBucket");
  ck_assert_str_eq(reply.message, "The bucket does <not> exist");
  ck_assert_str_eq(reply.request_id, "4442587FB7D0A2F9");
  ck_assert_str_eq(reply.region, "");
  ck_assert_int_eq(reply.server_time_s, 0);
}
END_TEST

START_TEST(region_and_server_time_are_read) {
  struct cleat__s3_reply_error reply;
  ck_assert_int_eq(read_error("<Error><Code>AuthorizationHeaderMalformed</Code><Region>eu-west-1"
                              "</Region></Error>",
                              &reply),
                   CLEAT_OK);
  ck_assert_str_eq(reply.region, "eu-west-1");
  ck_assert_int_eq(read_error("<Error><Code>RequestTimeTooSkewed</Code><RequestTime>20261121T130000Z"
                              "</RequestTime><ServerTime>2026-11-21T12:00:00Z</ServerTime></Error>",
                              &reply),
                   CLEAT_OK);
  ck_assert_int_eq(reply.server_time_s, 1795262400);
  ck_assert_int_eq(read_error("<Error><Code>C</Code><ServerTime>yesterday</ServerTime></Error>", &reply), CLEAT_OK);
  ck_assert_int_eq(reply.server_time_s, 0);
}
END_TEST

START_TEST(long_fields_of_an_error_are_cut) {
  struct cleat__buffer xml;
  cleat__buffer_init(&xml, 65536);
  char text[1001];
  memset(text, 'm', 1000);
  text[1000] = '\0';
  ck_assert_int_eq(cleat__buffer_print(&xml, "<Error><Code>%s</Code><Message>%s</Message></Error>", text, text),
                   CLEAT_OK);
  struct cleat__s3_reply_error reply;
  ck_assert_int_eq(cleat__s3_xml_error(xml.data, xml.length, &reply, &err), CLEAT_OK);
  ck_assert_uint_eq(strlen(reply.code), sizeof reply.code - 1);
  ck_assert_uint_eq(strlen(reply.message), sizeof reply.message - 1);
  cleat__buffer_clear(&xml);
}
END_TEST

static const char *const NOT_ERRORS[] = {
    "",
    "   \n ",
    "<html><body>502 Bad Gateway</body></html>",
    "<Error></Error>",
    "<Error><Message>no code</Message></Error>",
    "<Error><Code>NoSuchKey</Code>",
    "<Error><Code>NoSuchKey</Code></Error><Error/>",
    "<Wrapper><Error><Code>NoSuchKey</Code></Error></Wrapper>",
    "{\"error\": \"json\"}",
    "<!DOCTYPE Error [<!ENTITY a \"b\">]><Error><Code>&a;</Code></Error>",
    "<!DOCTYPE Error SYSTEM \"file:///etc/passwd\"><Error><Code>C</Code></Error>",
    "<!DOCTYPE Error><Error><Code>C</Code></Error>",
    "<Error><Code>&undefined;</Code></Error>",
    "<Error><Code>a\001b</Code></Error>",
};

START_TEST(what_is_no_error_document_is_refused) {
  struct cleat__s3_reply_error reply = {.code = "before"};
  ck_assert_int_eq(read_error(NOT_ERRORS[_i], &reply), CLEAT_FORMAT);
  ck_assert_int_eq(err.status, CLEAT_FORMAT);
  ck_assert_str_eq(reply.code, "before");
}
END_TEST

START_TEST(a_doctype_is_refused_by_name) {
  struct cleat__s3_reply_error reply;
  ck_assert_int_eq(read_error("<!DOCTYPE Error><Error><Code>C</Code></Error>", &reply), CLEAT_FORMAT);
  ck_assert_ptr_nonnull(strstr(err.message, "DOCTYPE"));
}
END_TEST

START_TEST(depth_is_bounded) {
  struct cleat__buffer xml;
  cleat__buffer_init(&xml, 65536);
  for (unsigned depth = CLEAT__XML_DEPTH; depth <= CLEAT__XML_DEPTH + 1; depth++) {
    cleat__buffer_reset(&xml);
    ck_assert_int_eq(cleat__buffer_print(&xml, "<Error><Code>C</Code>"), CLEAT_OK);
    for (unsigned i = 1; i < depth; i++)
      ck_assert_int_eq(cleat__buffer_print(&xml, "<a_name_that_is_longer_than_sixty_four_bytes_"
                                                 "because_the_path_is_made_of_such_names>"),
                       CLEAT_OK);
    for (unsigned i = 1; i < depth; i++)
      ck_assert_int_eq(cleat__buffer_print(&xml, "</a_name_that_is_longer_than_sixty_four_bytes_"
                                                 "because_the_path_is_made_of_such_names>"),
                       CLEAT_OK);
    ck_assert_int_eq(cleat__buffer_print(&xml, "</Error>"), CLEAT_OK);
    struct cleat__s3_reply_error reply;
    ck_assert_int_eq(cleat__s3_xml_error(xml.data, xml.length, &reply, &err),
                     depth <= CLEAT__XML_DEPTH ? CLEAT_OK : CLEAT_FORMAT);
  }
  ck_assert_ptr_nonnull(strstr(err.message, "too deep"));
  cleat__buffer_clear(&xml);
}
END_TEST

START_TEST(size_is_bounded) {
  size_t size = CLEAT__XML_MAX + 1;
  char *xml = cleat__alloc(size);
  ck_assert_ptr_nonnull(xml);
  static const char start[] = {'<', 'E', 'r', 'r', 'o', 'r', '>', '<', 'C', 'o', 'd', 'e', '>'};
  memset(xml, 'x', size);
  memcpy(xml, start, sizeof start);
  struct cleat__s3_reply_error reply;
  ck_assert_int_eq(cleat__s3_xml_error(xml, size, &reply, &err), CLEAT_FORMAT);
  ck_assert_ptr_nonnull(strstr(err.message, "bytes"));
  /* Within the size, one element's text is bounded too. */
  ck_assert_int_eq(cleat__s3_xml_error(xml, size / 2, &reply, &err), CLEAT_FORMAT);
  ck_assert_ptr_nonnull(strstr(err.message, "too long"));
  cleat__free(xml);
}
END_TEST

/* ---- List ---- */

static cleat_status read_list(const char *xml, const char *root, struct cleat__list_page *page) {
  return cleat__s3_xml_list(xml, strlen(xml), root, NULL, page, &err);
}

START_TEST(a_list_is_read) {
  struct cleat__list_page page = {0};
  ck_assert_int_eq(read_list(HEAD "<ListBucketResult" NS "><Name>b</Name><Prefix>run-17/</Prefix>"
                                  "<KeyCount>3</KeyCount><MaxKeys>1000</MaxKeys><Delimiter>/</Delimiter>"
                                  "<IsTruncated>true</IsTruncated><ContinuationToken>old</ContinuationToken>"
                                  "<NextContinuationToken>1ueGcx+/=&amp;</NextContinuationToken>"
                                  "<Contents><Key>run-17/z</Key><LastModified>2026-11-21T12:00:00.000Z"
                                  "</LastModified><ETag>&quot;e&quot;</ETag><Size>18446744073709551615</Size>"
                                  "<Owner><ID>i</ID></Owner></Contents>"
                                  "<Contents><Key>run-17/a&amp;b</Key><Size>0</Size></Contents>"
                                  "<CommonPrefixes><Prefix>run-17/step-1/</Prefix></CommonPrefixes>"
                                  "</ListBucketResult>",
                             "run-17/", &page),
                   CLEAT_OK);
  ck_assert_uint_eq(page.count, 3);
  ck_assert_str_eq(page.entries[0].key, "a&b");
  ck_assert_uint_eq(page.entries[0].size, 0);
  ck_assert(!page.entries[0].is_prefix);
  ck_assert_str_eq(page.entries[1].key, "step-1/");
  ck_assert(page.entries[1].is_prefix);
  ck_assert_uint_eq(page.entries[1].size, 0);
  ck_assert_str_eq(page.entries[2].key, "z");
  ck_assert_int_eq(page.entries[2].modified_s, 1795262400);
  ck_assert_int_eq(page.entries[0].modified_s, 0); /* not told */
  ck_assert_uint_eq(page.entries[2].size, UINT64_MAX);
  ck_assert_str_eq(page.next, "1ueGcx+/=&");
  cleat__list_page_clear(&page);
}
END_TEST

START_TEST(encoded_keys_are_decoded_wherever_the_type_stands) {
  struct cleat__list_page page = {0};
  ck_assert_int_eq(read_list("<ListBucketResult><Contents><Key>r+1/a%2Bb%25+c%01%C3%BC</Key><Size>1</Size>"
                             "</Contents><CommonPrefixes><Prefix>r+1/d+e/</Prefix></CommonPrefixes>"
                             "<IsTruncated>false</IsTruncated><EncodingType>url</EncodingType>"
                             "<NextContinuationToken>a%2B</NextContinuationToken></ListBucketResult>",
                             "r 1/", &page),
                   CLEAT_OK);
  ck_assert_uint_eq(page.count, 2);
  ck_assert_str_eq(page.entries[0].key, "a+b% c\001\xc3\xbc");
  ck_assert_str_eq(page.entries[1].key, "d e/");
  ck_assert_ptr_null(page.next);
  cleat__list_page_clear(&page);
}
END_TEST

START_TEST(without_the_type_keys_are_plain) {
  struct cleat__list_page page = {0};
  ck_assert_int_eq(read_list("<ListBucketResult><Contents><Key>a+b%20</Key><Size>1</Size>"
                             "</Contents></ListBucketResult>",
                             "", &page),
                   CLEAT_OK);
  ck_assert_str_eq(page.entries[0].key, "a+b%20");
  cleat__list_page_clear(&page);
}
END_TEST

START_TEST(an_empty_list_is_an_empty_page) {
  struct cleat__list_page page = {0};
  ck_assert_int_eq(read_list("<ListBucketResult><IsTruncated>false</IsTruncated>"
                             "<NextContinuationToken></NextContinuationToken></ListBucketResult>",
                             "x/", &page),
                   CLEAT_OK);
  ck_assert_uint_eq(page.count, 0);
  ck_assert_ptr_null(page.next);
  cleat__list_page_clear(&page);
}
END_TEST

START_TEST(folder_markers_are_left_out) {
  struct cleat__list_page page = {0};
  ck_assert_int_eq(read_list("<ListBucketResult><Contents><Key>r/</Key><Size>0</Size></Contents>"
                             "<Contents><Key>r/step/</Key><Size>0</Size></Contents>"
                             "<Contents><Key>r/x</Key><Size>5</Size></Contents>"
                             "</ListBucketResult>",
                             "r/", &page),
                   CLEAT_OK);
  ck_assert_uint_eq(page.count, 1);
  ck_assert_str_eq(page.entries[0].key, "x");
  ck_assert_uint_eq(page.entries[0].size, 5);
  cleat__list_page_clear(&page);
}
END_TEST

static const char *const BAD_LISTS[] = {
    "<ListBucketResult><Contents><Key>r/a</Key><Size>-1</Size></Contents></ListBucketResult>",
    "<ListBucketResult><Contents><Key>r/a</Key><Size>1x</Size></Contents></ListBucketResult>",
    "<ListBucketResult><Contents><Key>r/a</Key><Size></Size></Contents></ListBucketResult>",
    "<ListBucketResult><Contents><Key>r/a</Key><Size>18446744073709551616</Size></Contents>"
    "</ListBucketResult>",
    "<ListBucketResult><Contents><Size>1</Size></Contents></ListBucketResult>",
    "<ListBucketResult><Contents><Key>other/a</Key><Size>1</Size></Contents></ListBucketResult>",
    "<ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>",
    "<ListBucketResult><EncodingType>url</EncodingType><Contents><Key>r/%zz</Key></Contents>"
    "</ListBucketResult>",
    "<ListBucketResult><EncodingType>url</EncodingType><Contents><Key>r/a%00b</Key></Contents>"
    "</ListBucketResult>",
    "<ListBucketResult><Contents><Key>r/a</Key><Size>1</Size></Contents><Contents><Key>r/b</Key>",
    "<ListPartsResult></ListPartsResult>",
};

START_TEST(a_bad_list_is_refused) {
  struct cleat__list_page page = {0};
  ck_assert_int_eq(read_list(BAD_LISTS[_i], "r/", &page), CLEAT_FORMAT);
  ck_assert_ptr_null(page.entries);
}
END_TEST

START_TEST(the_entries_of_a_list_are_bounded) {
  struct cleat__buffer xml;
  cleat__buffer_init(&xml, 4u << 20);
  ck_assert_int_eq(cleat__buffer_print(&xml, "<ListBucketResult>"), CLEAT_OK);
  for (unsigned i = 0; i <= 10000; i++)
    ck_assert_int_eq(cleat__buffer_print(&xml, "<Contents><Key>%u</Key></Contents>", i), CLEAT_OK);
  ck_assert_int_eq(cleat__buffer_print(&xml, "</ListBucketResult>"), CLEAT_OK);
  struct cleat__list_page page = {0};
  ck_assert_int_eq(cleat__s3_xml_list(xml.data, xml.length, "", NULL, &page, &err), CLEAT_FORMAT);
  ck_assert_ptr_nonnull(strstr(err.message, "too many"));
  cleat__buffer_clear(&xml);
}
END_TEST

/* ---- Multipart ---- */

START_TEST(an_upload_id_is_read) {
  static const char xml[] = HEAD "<InitiateMultipartUploadResult" NS "><Bucket>b</Bucket><Key>k"
                                 "</Key><UploadId>VXBsb2Fk.IEl-D_~</UploadId>"
                                 "</InitiateMultipartUploadResult>";
  char id[CLEAT__UPLOAD_ID_MAX + 1] = "before";
  ck_assert_int_eq(cleat__s3_xml_upload_id(xml, sizeof xml - 1, id, &err), CLEAT_OK);
  ck_assert_str_eq(id, "VXBsb2Fk.IEl-D_~");
}
END_TEST

START_TEST(an_upload_id_that_is_missing_or_too_long_is_refused) {
  char id[CLEAT__UPLOAD_ID_MAX + 1] = "before";
  static const char none[] = "<InitiateMultipartUploadResult><UploadId/>"
                             "</InitiateMultipartUploadResult>";
  ck_assert_int_eq(cleat__s3_xml_upload_id(none, sizeof none - 1, id, &err), CLEAT_FORMAT);
  for (size_t length = CLEAT__UPLOAD_ID_MAX; length <= CLEAT__UPLOAD_ID_MAX + 1; length++) {
    char text[CLEAT__UPLOAD_ID_MAX + 2];
    memset(text, 'u', length);
    text[length] = '\0';
    char *xml = cleat__strprintf("<InitiateMultipartUploadResult><UploadId>%s</UploadId>"
                                 "</InitiateMultipartUploadResult>",
                                 text);
    cleat_status expected = length <= CLEAT__UPLOAD_ID_MAX ? CLEAT_OK : CLEAT_FORMAT;
    ck_assert_int_eq(cleat__s3_xml_upload_id(xml, strlen(xml), id, &err), expected);
    cleat__free(xml);
  }
  ck_assert_uint_eq(strlen(id), CLEAT__UPLOAD_ID_MAX);
}
END_TEST

static cleat_status read_completed(const char *xml, char etag[CLEAT__ETAG_MAX], struct cleat__s3_reply_error *reply) {
  return cleat__s3_xml_completed(xml, strlen(xml), etag, reply, &err);
}

START_TEST(a_completion_is_read_behind_white_space) {
  char etag[CLEAT__ETAG_MAX] = "before";
  struct cleat__s3_reply_error reply;
  ck_assert_int_eq(read_completed("   \n\n\t  \r\n" HEAD "   <CompleteMultipartUploadResult" NS ">"
                                  "<Location>http://h/b/k</Location><Bucket>b</Bucket><Key>k</Key>"
                                  "<ETag>&quot;3858f62230ac3c915f300c664312c11f-9&quot;</ETag>"
                                  "</CompleteMultipartUploadResult>\n",
                                  etag, &reply),
                   CLEAT_OK);
  ck_assert_str_eq(reply.code, "");
  ck_assert_str_eq(etag, "\"3858f62230ac3c915f300c664312c11f-9\"");
}
END_TEST

START_TEST(an_error_inside_a_200_is_told) {
  char etag[CLEAT__ETAG_MAX] = "before";
  struct cleat__s3_reply_error reply;
  ck_assert_int_eq(read_completed(HEAD "  \n  <Error><Code>InternalError</Code><Message>We "
                                       "encountered an internal error.</Message></Error>",
                                  etag, &reply),
                   CLEAT_OK);
  ck_assert_str_eq(reply.code, "InternalError");
  ck_assert_str_eq(etag, "before");
}
END_TEST

/* radosgw 16 answers each first Complete so. */
START_TEST(a_completion_may_have_an_empty_etag) {
  char etag[CLEAT__ETAG_MAX] = "before";
  struct cleat__s3_reply_error reply;
  ck_assert_int_eq(
      read_completed("<CompleteMultipartUploadResult><ETag></ETag></CompleteMultipartUploadResult>", etag, &reply),
      CLEAT_OK);
  ck_assert_str_eq(reply.code, "");
  ck_assert_str_eq(etag, "");
}
END_TEST

static const char *const BAD_COMPLETIONS[] = {
    "",
    "      ",
    "<CompleteMultipartUploadResult><Key>k</Key></CompleteMultipartUploadResult>",
    "<CompleteMultipartUploadResult><ETag>e</ETag>",
    "<Error><Message>m</Message></Error>",
    "<CopyObjectResult><ETag>e</ETag></CopyObjectResult>",
    "<CompleteMultipartUploadResult><A><ETag>e</ETag></A></CompleteMultipartUploadResult>",
};

START_TEST(a_bad_completion_is_refused) {
  char etag[CLEAT__ETAG_MAX] = "before";
  struct cleat__s3_reply_error reply = {0};
  ck_assert_int_eq(read_completed(BAD_COMPLETIONS[_i], etag, &reply), CLEAT_FORMAT);
  ck_assert_str_eq(etag, "before");
}
END_TEST

static cleat_status read_parts(const char *xml, struct cleat__s3_parts_page *page) {
  return cleat__s3_xml_parts(xml, strlen(xml), page, &err);
}

START_TEST(parts_are_read_in_order) {
  struct cleat__s3_parts_page page = {0};
  ck_assert_int_eq(read_parts(HEAD "<ListPartsResult" NS "><Bucket>b</Bucket><UploadId>u</UploadId>"
                                   "<PartNumberMarker>0</PartNumberMarker><NextPartNumberMarker>7"
                                   "</NextPartNumberMarker><MaxParts>2</MaxParts><IsTruncated>true</IsTruncated>"
                                   "<Part><PartNumber>7</PartNumber><ETag>&quot;b&quot;</ETag><Size>3</Size>"
                                   "<ChecksumCRC64NVME>rosUhgp5mIg=</ChecksumCRC64NVME>"
                                   "</Part><Part><PartNumber>2</PartNumber><ETag>&quot;a&quot;</ETag>"
                                   "<Size>5242880</Size><ChecksumCRC32C>4waSgw==</ChecksumCRC32C></Part>"
                                   "</ListPartsResult>",
                              &page),
                   CLEAT_OK);
  ck_assert_uint_eq(page.count, 2);
  ck_assert_uint_eq(page.parts[0].number, 2);
  ck_assert_uint_eq(page.parts[0].size, 5242880);
  ck_assert_str_eq(page.parts[0].etag, "\"a\"");
  ck_assert(page.parts[0].has_crc32c);
  ck_assert_uint_eq(page.parts[0].crc32c, 0xE3069283);
  ck_assert_uint_eq(page.parts[1].number, 7);
  ck_assert(!page.parts[1].has_crc32c && page.parts[1].has_crc64nvme);
  ck_assert_uint_eq(page.parts[1].crc64nvme, UINT64_C(0xAE8B14860A799888));
  ck_assert(!page.parts[0].has_crc64nvme);
  ck_assert(page.truncated);
  ck_assert_uint_eq(page.next_marker, 7);
  cleat__free(page.parts);
}
END_TEST

START_TEST(no_parts_are_an_empty_page) {
  struct cleat__s3_parts_page page = {0};
  ck_assert_int_eq(read_parts("<ListPartsResult><NextPartNumberMarker>0</NextPartNumberMarker>"
                              "<IsTruncated>false</IsTruncated></ListPartsResult>",
                              &page),
                   CLEAT_OK);
  ck_assert_uint_eq(page.count, 0);
  ck_assert(!page.truncated);
}
END_TEST

static const char *const BAD_PARTS[] = {
    "<ListPartsResult><Part><ETag>e</ETag><Size>1</Size></Part></ListPartsResult>",
    "<ListPartsResult><Part><PartNumber>0</PartNumber><ETag>e</ETag></Part></ListPartsResult>",
    "<ListPartsResult><Part><PartNumber>10001</PartNumber><ETag>e</ETag></Part></ListPartsResult>",
    "<ListPartsResult><Part><PartNumber>1</PartNumber><Size>1</Size></Part></ListPartsResult>",
    "<ListPartsResult><Part><PartNumber>1</PartNumber><ETag>e</ETag><Size>one</Size></Part>"
    "</ListPartsResult>",
    "<ListPartsResult><IsTruncated>true</IsTruncated></ListPartsResult>",
    "<ListPartsResult><IsTruncated>true</IsTruncated><NextPartNumberMarker>0"
    "</NextPartNumberMarker></ListPartsResult>",
    "<ListPartsResult><Part><PartNumber>1</PartNumber><ETag>e</ETag></Part>",
};

START_TEST(bad_parts_are_refused) {
  struct cleat__s3_parts_page page = {0};
  ck_assert_int_eq(read_parts(BAD_PARTS[_i], &page), CLEAT_FORMAT);
  ck_assert_ptr_null(page.parts);
}
END_TEST

START_TEST(the_body_of_a_complete) {
  const struct cleat__stored_part parts[] = {
      {.number = 1, .crc32c = 0xE3069283, .has_crc32c = true, .etag = "\"a<&>'b\""},
      {.number = 10000, .crc32c = 1, .has_crc32c = false, .etag = "c"},
  };
  struct cleat__buffer body;
  cleat__buffer_init(&body, 4096);
  ck_assert_int_eq(cleat__s3_xml_complete_body(parts, 2, CLEAT__S3_NAME_CRC32C, &body), CLEAT_OK);
  ck_assert_str_eq(cleat__buffer_text(&body),
                   "<CompleteMultipartUpload xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">"
                   "<Part><PartNumber>1</PartNumber><ETag>&#34;a&#60;&#38;&#62;&#39;b&#34;</ETag>"
                   "<ChecksumCRC32C>4waSgw==</ChecksumCRC32C></Part>"
                   "<Part><PartNumber>10000</PartNumber><ETag>c</ETag></Part>"
                   "</CompleteMultipartUpload>");
  cleat__buffer_reset(&body);
  const struct cleat__stored_part other = {
      .number = 1, .has_crc32c = true, .has_crc64nvme = true, .crc64nvme = UINT64_C(0xAE8B14860A799888)};
  ck_assert_int_eq(cleat__s3_xml_complete_body(&other, 1, CLEAT__S3_NAME_CRC64NVME, &body), CLEAT_OK);
  ck_assert_ptr_nonnull(
      strstr(cleat__buffer_text(&body), "</ETag><ChecksumCRC64NVME>rosUhgp5mIg=</ChecksumCRC64NVME></Part>"));
  cleat__buffer_reset(&body);
  ck_assert_int_eq(cleat__s3_xml_complete_body(parts, 1, CLEAT__S3_NAME_NONE, &body), CLEAT_OK);
  ck_assert_ptr_null(strstr(cleat__buffer_text(&body), "Checksum"));
  cleat__buffer_clear(&body);
  cleat__buffer_init(&body, 100);
  ck_assert_int_eq(cleat__s3_xml_complete_body(parts, 2, CLEAT__S3_NAME_CRC32C, &body), CLEAT_LIMIT);
  cleat__buffer_clear(&body);
}
END_TEST

/* ---- No memory ---- */

static cleat_status read_all(void) {
  struct cleat__list_page page = {0};
  cleat_status status = read_list("<ListBucketResult><Contents><Key>a</Key><Size>1</Size></Contents><Contents><Key>b"
                                  "</Key></Contents><IsTruncated>true</IsTruncated><NextContinuationToken>t"
                                  "</NextContinuationToken></ListBucketResult>",
                                  "", &page);
  cleat__list_page_clear(&page);
  if (status)
    return status;
  struct cleat__s3_parts_page parts = {0};
  status = read_parts("<ListPartsResult><Part><PartNumber>1</PartNumber><ETag>e</ETag></Part>"
                      "</ListPartsResult>",
                      &parts);
  cleat__free(parts.parts);
  return status;
}

START_TEST(no_memory_is_reported) {
  ck_assert_uint_gt(each_fault_no_memory(read_all), 10);
}
END_TEST

static const struct suite_row tests[] = {
    CASE("all", setup, NULL, 0),
    TEST(an_error_is_read, 1),
    TEST(region_and_server_time_are_read, 1),
    TEST(long_fields_of_an_error_are_cut, 1),
    TEST(what_is_no_error_document_is_refused, COUNT(NOT_ERRORS)),
    TEST(a_doctype_is_refused_by_name, 1),
    TEST(depth_is_bounded, 1),
    TEST(size_is_bounded, 1),
    TEST(a_list_is_read, 1),
    TEST(encoded_keys_are_decoded_wherever_the_type_stands, 1),
    TEST(without_the_type_keys_are_plain, 1),
    TEST(an_empty_list_is_an_empty_page, 1),
    TEST(folder_markers_are_left_out, 1),
    TEST(a_bad_list_is_refused, COUNT(BAD_LISTS)),
    TEST(the_entries_of_a_list_are_bounded, 1),
    TEST(an_upload_id_is_read, 1),
    TEST(an_upload_id_that_is_missing_or_too_long_is_refused, 1),
    TEST(a_completion_is_read_behind_white_space, 1),
    TEST(an_error_inside_a_200_is_told, 1),
    TEST(a_completion_may_have_an_empty_etag, 1),
    TEST(a_bad_completion_is_refused, COUNT(BAD_COMPLETIONS)),
    TEST(parts_are_read_in_order, 1),
    TEST(no_parts_are_an_empty_page, 1),
    TEST(bad_parts_are_refused, COUNT(BAD_PARTS)),
    TEST(the_body_of_a_complete, 1),
    TEST(no_memory_is_reported, 1),
};

int main(void) {
  return run_table("s3_xml", tests, COUNT(tests));
}
